-- Starts a job, or finds the one that has the same target and has not ended.
--
-- KEYS: the jobs that have not ended, the new job. ARGV: the target, the ID of the new job, the maximum number of jobs, then fields and
-- values of the new job. Reply: the ID of the job; nil if there are too many jobs.
--
-- requires: TIME
-- requires: HGET {jobs} f
-- requires: HLEN {jobs}
-- requires: HSET {jobs} f v
-- requires: HSET {job} f v
local target, id = ARGV[1], ARGV[2]
local active = redis.call('HGET', KEYS[1], target)
if active then
  return active
end
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then
  return false
end
require_permission('HSET', KEYS[2], 'f', 'v')
require_permission('HSET', KEYS[1], target, id)
local time = redis.call('TIME')
redis.call('HSET', KEYS[2], 'state', 'queued', 'created', string.format('%s%03d', time[1], math.floor(time[2] / 1000)), unpack(ARGV, 4))
redis.call('HSET', KEYS[1], target, id)
return id
