-- Compares the three numbers of an entity with counts by day, which change in the same steps: the counter, the total and the sum of its
-- days. Corrects the wrong numbers.
--
-- KEYS: the counters, the Hash of days, that of archived days, the totals, the audit, optionally the log, optionally the stream of
-- changes. ARGV: row, idx, length and minimum length of the counters, the row of the total ('' if it is in a Hash), the ID of the
-- entity, what the numbers must be ('' if that is unknown), the smallest difference that is corrected, the field of archived days for
-- the correction, the entry of the log ('' without the log), the maximum length of the audit, the number of entries that the stream of
-- changes retains, the content of the new entry ('' without the stream), then fields and values of the entries of the audit.
--
-- Reply: the counter, the total and the sum of the days before, what they must be, how many of them were corrected, and 1 if all three
-- differed and the total was taken.
--
-- requires: HVALS {day_counts}
-- requires: XADD {log} 0-* f v
local MAX = 1099511627775
local row, idx, len, min_len, total_row, eid, expected, min_difference, field, entry, retain, retain_changes, change = unpack(ARGV, 1, 13)
local counters, hash, history, totals, audit_key = unpack(KEYS, 1, 5)
local log = entry ~= '' and KEYS[6] or nil
local changes = change ~= '' and KEYS[#KEYS] or nil

local mismatch = counter_mismatch(counters, row, tonumber(min_len))
if mismatch then
  return counter_error(mismatch)
end
if is_not_hash(hash) or is_not_hash(history) or is_not_totals(totals, total_row) then
  return counter_error('type')
end
local before = { counter_get(counters, row, idx) or 0, total_get(totals, total_row, eid), 0 }
for _, key in ipairs({ hash, history }) do
  for _, value in ipairs(redis.call('HVALS', key)) do
    before[3] = before[3] + (tonumber(value) or 0)
  end
end

-- Two numbers that agree are right. If all differ, the total is: nothing but the steps that count writes it.
local value, total, days = unpack(before)
local target, is_ambiguous = total, 0
if expected ~= '' then
  target = tonumber(expected)
elseif value == days then
  target = value
elseif value ~= total and total ~= days then
  is_ambiguous = 1
end
target = math.max(0, math.min(MAX, target))
local wrong = {}
for i = 1, 3 do
  if before[i] ~= target and math.abs(before[i] - target) >= tonumber(min_difference) then
    wrong[#wrong + 1] = i
  end
end
local reply = { value, total, days, target, #wrong, is_ambiguous }
if #wrong == 0 then
  return reply
end

counter_require_permission(counters, row)
days_require_permission(history)
totals_require_permission(totals, total_row)
audit_require_permission(audit_key, retain)
local names, keys = { 'counter', 'total', 'days' }, { counters, totals, hash }
-- Appends can fail, so they come first. An entry of the log without a change changes nothing.
if log and wrong[1] == 1 then
  redis.call('XADD', log, '0-*', 'a', entry)
end
for _, i in ipairs(wrong) do
  local fields = { unpack(ARGV, 14) }
  for _, text in ipairs({ 'key', keys[i], 'number', names[i], 'note', is_ambiguous == 1 and 'ambiguous' or '' }) do
    fields[#fields + 1] = text
  end
  audit(audit_key, retain, before[i], target, fields)
end
for _, i in ipairs(wrong) do
  local delta = string.format('%.0f', target - before[i])
  if i == 1 then
    counter_add(counters, row, len, idx, delta)
  elseif i == 2 then
    total_add(totals, total_row, eid, delta)
  else
    field_add(history, field, delta)
  end
end
if changes and wrong[1] == 1 then
  announce(changes, retain_changes, { change })
end
return reply
