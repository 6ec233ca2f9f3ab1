-- Creates a missing stream of changes, without entries. Its last ID is then the present time, so a client that resumes from an earlier one
-- notices that the stream has not existed all the time.
--
-- KEYS: the stream. Reply: its last ID; nil if it exists.
--
-- requires: EXISTS {changes}
-- requires: XADD {changes} MAXLEN 0 * n v
if redis.call('EXISTS', KEYS[1]) == 1 then
  return false
end
return redis.call('XADD', KEYS[1], 'MAXLEN', 0, '*', 'n', '', 'p', '0-0')
