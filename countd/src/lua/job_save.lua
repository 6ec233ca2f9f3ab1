-- Saves the progress of a job and extends or ends the lease, if the process still owns the job.
--
-- KEYS: the job. ARGV: the token of the process, the length of the lease in milliseconds (0 ends it), the delay in milliseconds until the
-- job is due again, then fields and values. Reply: the end of the lease in milliseconds since 1970; nil if another process owns the job.
--
-- requires: TIME
-- requires: HGET {job} f
-- requires: HSET {job} f v
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then
  return false
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local until_ms = string.format('%.0f', now + ARGV[2])
redis.call('HSET', KEYS[1], 'lease', until_ms, 'due', string.format('%.0f', now + ARGV[3]), unpack(ARGV, 4))
return until_ms
