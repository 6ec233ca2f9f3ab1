-- Keeps the entries of logs that are not archived yet, for a rebuild: they are not trimmed, and their outcomes are kept, until the hold
-- expires.
--
-- KEYS: the archived offsets, the positions, the holds. ARGV: the time to live of the holds in seconds, then the partitions. Reply: the
-- first offset that is kept of each; 0 if entries of the partition were counted, but none is archived.
--
-- requires: HGET {archived} 0
-- requires: HGET {position} 0
-- requires: HSET {hold} 0 1
-- requires: EXPIRE {hold} 1
require_permission('HSET', KEYS[3], '0', 1)
require_permission('EXPIRE', KEYS[3], 1)
local held = {}
for i = 2, #ARGV do
  local offset = redis.call('HGET', KEYS[1], ARGV[i])
  if not offset and tonumber(redis.call('HGET', KEYS[2], ARGV[i]) or 1) == 1 then
    offset = 1
  end
  held[i - 1] = tonumber(offset or 0)
  if offset then
    redis.call('HSET', KEYS[3], ARGV[i], offset)
  end
end
redis.call('EXPIRE', KEYS[3], ARGV[1])
return held
