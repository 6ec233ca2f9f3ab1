-- Claims a job for a process, unless another process has a lease of it, or it is not yet due.
--
-- KEYS: the job. ARGV: the token of the process, the length of the lease in milliseconds. Reply: the end of the lease in milliseconds
-- since 1970, and all fields and values; nil if the job cannot be claimed.
--
-- requires: TIME
-- requires: HMGET {job} f
-- requires: HSET {job} f v
-- requires: HGETALL {job}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local state, lease, due = unpack(redis.call('HMGET', KEYS[1], 'state', 'lease', 'due'))
if not state or state == 'done' or now < tonumber(lease or 0) or now < tonumber(due or 0) then
  return false
end
local until_ms = string.format('%.0f', now + ARGV[2])
require_permission('HGETALL', KEYS[1])
redis.call('HSET', KEYS[1], 'state', 'running', 'owner', ARGV[1], 'lease', until_ms)
return { until_ms, redis.call('HGETALL', KEYS[1]) }
