-- Sets a counter to 0. KEYS: the counters, optionally the idempotency key. ARGV: row, idx, minimum length of the counters, the guard of
-- the idempotency key. Reply: the old value, or the stored answer if the idempotency key exists.
local row, idx, min_len, guard = unpack(ARGV)
local first = replayed(KEYS[2])
if first then
  return first
end
local mismatch = counter_mismatch(KEYS[1], row, tonumber(min_len))
if mismatch then
  return counter_error(mismatch)
end
require_permission_to_remember(KEYS[2])
local old = counter_reset(KEYS[1], row, idx)
remember(KEYS[2], guard, 1, old)
return old
