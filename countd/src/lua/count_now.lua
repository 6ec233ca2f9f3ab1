-- Changes a counter and appends the event to the log, atomically.
--
-- KEYS: the counters, the log, optionally the idempotency key, and those of the author if the action names one (author.lua). ARGV: row,
-- idx, length and minimum length of the counters, delta, event, the guard of the idempotency key ('' without one), and the arguments of
-- the author. Reply: the new value, the stored answer if the idempotency key exists, or the error AUTHORMISMATCH.
--
-- requires: XADD {log} 0-* f v
local row, idx, len, min_len, delta, event, guard = unpack(ARGV)
local guard_key = guard ~= '' and KEYS[3] or nil
local first = replayed(guard_key)
if first then
  return first
end
local named = named_author(8)
local refusal = author_mismatch(named)
if refusal then
  return refusal
end
local mismatch = counter_mismatch(KEYS[1], row, tonumber(min_len)) or day_mismatch(KEYS[1], row, idx)
if mismatch then
  return counter_error(mismatch)
end
counter_require_permission(KEYS[1], row)
require_permission_to_remember(guard_key)
-- The last command that can fail comes first, since Redis does not roll a script back.
redis.call('XADD', KEYS[2], '0-*', 'e', event)
local values = counter_add(KEYS[1], row, len, idx, delta)
day_count(values[1])
author_register(named, true)
remember(guard_key, guard, 1, values[1])
return values[1]
