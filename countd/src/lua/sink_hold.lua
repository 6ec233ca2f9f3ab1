-- Keeps the entries of logs that a sink has not read, until the hold expires.
--
-- KEYS: the holds. ARGV: their time to live in seconds, then partitions and the first offsets that the sink has not read.
--
-- requires: HSET {sink} 0 1
-- requires: EXPIRE {sink} 1
require_permission('HSET', KEYS[1], '0', 1)
require_permission('EXPIRE', KEYS[1], 1)
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('EXPIRE', KEYS[1], ARGV[1])
