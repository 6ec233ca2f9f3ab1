-- Adds to a counter or sets it, and records that in the audit, atomically.
--
-- KEYS: the counters, the audit, optionally the idempotency key, optionally the log, optionally the stream of changes. ARGV: row, idx,
-- length and minimum length of the counters, `add` or `set`, the value, the guard of the idempotency key ('' without one), the entry
-- ('' without the log), the maximum length of the audit, the number of entries that the stream of changes retains, the content of the
-- new entry ('' without the stream), then fields and values of the entry of the audit. Reply: the value before; the stored answer if
-- the idempotency key exists; or the error OUTOFRANGE with the value before.
local MAX = 1099511627775
local row, idx, len, min_len, mode, value, guard, entry, retain, retain_changes, change = unpack(ARGV, 1, 11)
local guard_key, log, changes = optional_keys(3, guard, entry, change)
local first = replayed(guard_key)
if first then
  return first
end
local mismatch = counter_mismatch(KEYS[1], row, tonumber(min_len)) or day_mismatch(KEYS[1], row, idx)
if mismatch then
  return counter_error(mismatch)
end
local before = counter_get(KEYS[1], row, idx) or 0
local after = mode == 'add' and before + value or tonumber(value)
if after < 0 or after > MAX then
  return redis.error_reply(string.format('OUTOFRANGE %.0f', before))
end
require_permission_to_remember(guard_key)
counter_require_permission(KEYS[1], row)
audit_require_permission(KEYS[2], retain)
-- Appends can fail, so they come first. An entry of the log without a change changes nothing.
if log and after ~= before then
  journal(log, entry, after - before)
end
audit(KEYS[2], retain, before, after, { unpack(ARGV, 12) })
if after ~= before then
  counter_add(KEYS[1], row, len, idx, string.format('%.0f', after - before))
  day_count(after)
  if changes then
    announce(changes, retain_changes, { change })
  end
end
remember(guard_key, guard, after ~= before and 1 or 0, before)
return before
