-- Changes a counter and appends the event to the log, atomically.
--
-- KEYS: the counters, the log, optionally the idempotency key. ARGV: row, idx, length and minimum length of the counters, delta, event,
-- the guard of the idempotency key. Reply: the new value, or the stored answer if the idempotency key exists.
--
-- requires: XADD {log} 0-* f v
local row, idx, len, min_len, delta, event, guard = unpack(ARGV)
local first = replayed(KEYS[3])
if first then
  return first
end
local mismatch = counter_mismatch(KEYS[1], row, tonumber(min_len))
if mismatch then
  return counter_error(mismatch)
end
counter_require_permission(KEYS[1], row)
require_permission_to_remember(KEYS[3])
-- The last command that can fail comes first, since Redis does not roll a script back.
redis.call('XADD', KEYS[2], '0-*', 'e', event)
local values = counter_add(KEYS[1], row, len, idx, delta)
remember(KEYS[3], guard, 1, values[1])
return values[1]
