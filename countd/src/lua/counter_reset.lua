-- Sets a counter to 0. If it feeds the author of the entity, appends an entry to the log with which the consumer takes the credit back.
--
-- KEYS: the counters, optionally the idempotency key, optionally the log. ARGV: row, idx, minimum length of the counters, the guard of
-- the idempotency key ('' without one), and the entry if there is a log. Reply: the old value, or the stored answer if the idempotency
-- key exists.
--
-- requires: XADD {log} 0-* f v
local row, idx, min_len, guard, entry = unpack(ARGV)
local guard_key = guard ~= '' and KEYS[2] or nil
local first = replayed(guard_key)
if first then
  return first
end
local mismatch = counter_mismatch(KEYS[1], row, tonumber(min_len))
if mismatch then
  return counter_error(mismatch)
end
counter_require_permission(KEYS[1], row)
require_permission_to_remember(guard_key)
if entry and (counter_get(KEYS[1], row, idx) or 0) > 0 then
  -- The last command that can fail comes first, since Redis does not roll a script back.
  redis.call('XADD', KEYS[#KEYS], '0-*', 'a', entry)
end
local old = counter_reset(KEYS[1], row, idx)
remember(guard_key, guard, 1, old)
return old
