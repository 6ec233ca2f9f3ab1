-- Records a field of the layout: the storage of a type, or that facts of a metric are kept for users. Starts a new epoch, which tells
-- running processes to read the layout again.
--
-- KEYS: the layout. ARGV: the field, its value, and the field of the epoch. Reply: the epoch.
--
-- requires: HSET {layout} f v
-- requires: HINCRBY {layout} f 1
require_permission('HSET', KEYS[1], ARGV[1], ARGV[2])
require_permission('HINCRBY', KEYS[1], ARGV[3], 1)
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return redis.call('HINCRBY', KEYS[1], ARGV[3], 1)
