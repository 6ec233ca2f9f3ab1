-- Counts by day, in the step that changes a counter. The rest of the script follows.
--
-- The last two KEYS: the Hash of the day, and the totals. The last three arguments: the date, the row of the total ('' if it is in a
-- Hash), and the ID of the entity.
local DAY = { key = KEYS[#KEYS - 1], totals = KEYS[#KEYS], date = ARGV[#ARGV - 2], row = ARGV[#ARGV - 1], eid = ARGV[#ARGV] }
for _ = 1, 2 do
  KEYS[#KEYS] = nil
end
for _ = 1, 3 do
  ARGV[#ARGV] = nil
end

-- Checks the keys of the day, and remembers the counter. Returns `type` if a key is damaged.
local function day_mismatch(key, row, idx)
  if is_not_hash(DAY.key) or is_not_totals(DAY.totals, DAY.row) then
    return 'type'
  end
  days_require_permission(DAY.key)
  totals_require_permission(DAY.totals, DAY.row)
  DAY.before = counter_get(key, row, idx) or 0
end

-- Counts the change of the counter, which now has this value.
local function day_count(after)
  local delta = after - DAY.before
  if delta ~= 0 then
    delta = string.format('%.0f', delta)
    field_add(DAY.key, DAY.date, delta)
    total_add(DAY.totals, DAY.row, DAY.eid, delta)
  end
end

-- As `day_mismatch`, for the counter of a command RBM.MARK or RBM.UNMARK, which is argument `at`.
local function day_mismatch_of_command(at)
  local key, row, idx = ARGV[at + 4], '', ARGV[at + 5]
  if idx == 'ROW' then
    row, idx = ARGV[at + 6], ARGV[at + 7]
  end
  local mismatch = counter_mismatch(key, row, 0) or day_mismatch(key, row, idx)
  return mismatch and counter_error(mismatch)
end

-- Counts the change by a command with this reply.
local function day_count_reply(reply)
  day_count(reply[2] or DAY.before)
end
