-- Ends a job, if the process still owns it. The fields that name its target are deleted.
--
-- KEYS: the jobs that have not ended, the job. ARGV: the token of the process, the target, the number of seconds for which the job is
-- kept, the number of fields to delete, these fields, then fields and values. Reply: 1, or 0 if another process owns the job.
--
-- requires: TIME
-- requires: HGET {job} f
-- requires: HDEL {job} f
-- requires: HSET {job} f v
-- requires: EXPIRE {job} 1
-- requires: HDEL {jobs} f
if redis.call('HGET', KEYS[2], 'owner') ~= ARGV[1] then
  return 0
end
require_permission('HSET', KEYS[2], 'f', 'v')
require_permission('HDEL', KEYS[2], 'f')
require_permission('EXPIRE', KEYS[2], 1)
require_permission('HDEL', KEYS[1], ARGV[2])
local time, deleted = redis.call('TIME'), tonumber(ARGV[4])
redis.call('HSET', KEYS[2], 'state', 'done', 'ended', string.format('%s%03d', time[1], math.floor(time[2] / 1000)), unpack(ARGV, 5 + deleted))
redis.call('HDEL', KEYS[2], unpack(ARGV, 5, 4 + deleted))
redis.call('EXPIRE', KEYS[2], ARGV[3])
redis.call('HDEL', KEYS[1], ARGV[2])
return 1
