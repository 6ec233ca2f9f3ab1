-- Changes a counter and appends the event to the log, atomically.
--
-- KEYS: the counters, the log, optionally the idempotency key. ARGV: idx, length and minimum length of the object, delta, event, the
-- guard of the idempotency key. Reply: the new value, or the stored answer if the idempotency key exists.
--
-- requires: XADD {log} 0-* f v
local first = replayed(KEYS[3])
if first then
  return first
end
local mismatch = counter_mismatch(KEYS[1], tonumber(ARGV[3]))
if mismatch then
  return counter_error(mismatch)
end
counter_require_permission(KEYS[1])
require_permission_to_remember(KEYS[3])
-- The last command that can fail comes first, since Redis does not roll a script back.
redis.call('XADD', KEYS[2], '0-*', 'e', ARGV[5])
local values = counter_add(KEYS[1], ARGV[2], ARGV[1], ARGV[4])
remember(KEYS[3], ARGV[6], 1, values[1])
return values[1]
