-- Records the time at which the data was in use by an archiver (log/archive/guard.rs).
--
-- KEYS: the Hash of archived offsets. ARGV: the time, and the time that the caller has seen here, or 0. If the Hash has an earlier one, Redis
-- has lost writes: nothing changes. Reply: the time that is recorded now; nil if writes were lost.
--
-- requires: HGET {archived} 0
-- requires: HSET {archived} 0 1
local now, seen = tonumber(ARGV[1]), tonumber(ARGV[2])
local stored = tonumber(redis.call('HGET', KEYS[1], 'at') or 0)
if stored < seen then
  return false
end
local time = math.max(now, stored)
redis.call('HSET', KEYS[1], 'at', string.format('%.0f', time))
return time
