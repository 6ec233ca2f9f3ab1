-- Sets a counter to 0. KEYS: the counters, optionally the idempotency key. ARGV: idx, minimum length of the object, the guard of the
-- idempotency key. Reply: the old value, or the stored answer if the idempotency key exists.
local first = replayed(KEYS[2])
if first then
  return first
end
local mismatch = counter_mismatch(KEYS[1], tonumber(ARGV[2]))
if mismatch then
  return counter_error(mismatch)
end
require_permission_to_remember(KEYS[2])
local old = counter_reset(KEYS[1], ARGV[1])
remember(KEYS[2], ARGV[#ARGV], 1, old)
return old
