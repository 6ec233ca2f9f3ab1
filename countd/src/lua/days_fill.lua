-- Records what entities had counted before their days were kept: the difference between the counter and the sum of its days, in the
-- archived days. The total becomes the counter. Repeating it changes nothing, because counter, total and days change in the same steps.
--
-- KEYS: the counters, the table of totals (the Hash on data without tables), the Hash of totals. ARGV: idx, the parts of the keys of
-- archived days before and after the ID, the field for the counts, and `rows`, the cursor of the rows of a table and the number of rows,
-- or `object` and the ID of the entity. Reply: the next cursor ('0' at the end), the number of entities that had such counts, and the number
-- of entities with a damaged Hash of days, which are skipped. Totals of another type are replaced. A call ends early if the entities have many days.
local idx, prefix, suffix, field, form, from, count = unpack(ARGV)

-- The number of days after which a call ends: about 3 ms of the server's time.
local MAX_DAYS = 20000

local damaged, days_read = 0, 0
local days_suffix = suffix:gsub('^:history', '')
local function fill(eid, row, value)
  local totals = row == '' and KEYS[3] or KEYS[2]
  local days, history = prefix .. eid .. days_suffix, prefix .. eid .. suffix
  -- A comparison replaces damaged days, and trusts the total.
  local is_damaged = is_not_hash(days) or is_not_hash(history)
  local before, missing = 0, value - (total_get(totals, row, eid) or 0)
  if is_damaged then
    damaged = damaged + 1
  else
    local sum, count = days_sum(days)
    local archived, archived_count = days_sum(history)
    before, days_read = value - sum - archived, days_read + count + archived_count
  end
  if before ~= 0 then
    field_add(history, field, string.format('%.0f', before))
  end
  if missing ~= 0 then
    total_add(totals, row, eid, string.format('%.0f', missing))
  end
  return before ~= 0 and 1 or 0
end

local damaged_totals = {}
for _, totals in ipairs({ { KEYS[2], table_rows and 0 or '' }, { KEYS[3], '' } }) do
  if is_not_totals(totals[1], totals[2]) then
    damaged_totals[#damaged_totals + 1] = totals[1]
    require_permission('DEL', totals[1])
  else
    totals_require_permission(totals[1], totals[2])
  end
end
days_require_permission(prefix .. '0' .. suffix)
if counter_mismatch(KEYS[1], form == 'rows' and 0 or '', 0) then
  return counter_error('type')
end
-- Every counter is visited, and becomes its total. Damaged totals that stayed would count as totals of 0.
-- requires: DEL {totals}
for _, key in ipairs(damaged_totals) do
  redis.call('DEL', key)
end
if form == 'object' then
  -- The object may have been moved to a row, or erased, since the caller saw it.
  local value = counter_get(KEYS[1], '', idx)
  local row = has_total_row(from) and from or ''
  local filled = value and fill(from, row, value) or 0
  return { '0', filled, damaged }
end
local page = table_ids(KEYS[1], from, count)
local filled = 0
for i, row in ipairs(table_rows(KEYS[1], page[2]) or {}) do
  -- The cursor is an ID.
  if days_read > MAX_DAYS then
    return { page[2][i], filled, damaged }
  end
  filled = filled + fill(page[2][i], page[2][i], row and row[idx + 1] or 0)
end
return { page[1], filled, damaged }
