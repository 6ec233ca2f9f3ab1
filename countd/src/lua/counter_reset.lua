-- Sets a counter to 0. If it feeds the author of the entity, appends an entry to the log with which the consumer takes the credit back.
-- Announces the change.
--
-- KEYS: the counters, optionally the idempotency key, optionally the log, optionally the stream of changes. ARGV: row, idx, minimum length
-- of the counters, the guard of the idempotency key ('' without one), the entry ('' without the log), the number of entries that the
-- stream of changes retains and the content of the new entry ('' without the stream). Reply: the old value, or the stored answer if the
-- idempotency key exists.
local row, idx, min_len, guard, entry, retain, change = unpack(ARGV)
local guard_key, log, changes = optional_keys(2, guard, entry, change)
local first = replayed(guard_key)
if first then
  return first
end
local mismatch = counter_mismatch(KEYS[1], row, tonumber(min_len)) or day_mismatch(KEYS[1], row, idx)
if mismatch then
  return counter_error(mismatch)
end
require_permission_to_remember(guard_key)
counter_require_permission(KEYS[1], row)
local value = log and counter_get(KEYS[1], row, idx) or 0
if value > 0 then
  -- The last command that can fail comes first, since Redis does not roll a script back.
  journal(log, entry, -value)
end
local old = counter_reset(KEYS[1], row, idx)
day_count(0)
remember(guard_key, guard, 1, old)
if changes and old > 0 then
  announce(changes, retain, { change })
end
return old
