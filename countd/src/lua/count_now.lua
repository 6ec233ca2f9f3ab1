-- Changes a counter and appends the event to the log, atomically.
--
-- KEYS: the counters, the log, optionally the idempotency key. ARGV: idx, length and minimum length of the object, delta, event, time
-- to live of the idempotency key in seconds. Reply: the new value, or nil if the idempotency key exists.
--
-- requires: EXISTS {dedup}
-- requires: SET {dedup} 1 EX 1
-- requires: XADD {log} 0-* f v
if KEYS[3] and redis.call('EXISTS', KEYS[3]) == 1 then
  return false
end
local mismatch = counter_mismatch(KEYS[1], tonumber(ARGV[3]))
if mismatch then
  return counter_error(mismatch)
end
counter_require_permission(KEYS[1])
if KEYS[3] then
  require_permission('SET', KEYS[3], 1, 'EX', ARGV[6])
end
-- The last command that can fail comes first, since Redis does not roll a script back.
redis.call('XADD', KEYS[2], '0-*', 'e', ARGV[5])
local values = counter_add(KEYS[1], ARGV[2], ARGV[1], ARGV[4])
if KEYS[3] then
  redis.call('SET', KEYS[3], 1, 'EX', ARGV[6])
end
return values[1]
