-- The numbers of a counter with counts by day: the counter itself, its total and the sum of its days. They change in the same steps, so
-- they are equal in every step.

-- Reads the total and the sum of the days. `keys` are the Hash of days, that of archived days and the totals. A key that holds another
-- type counts as missing.
local function read_day_numbers(keys, row, eid)
  local numbers = { hash = keys[1], history = keys[2], totals = keys[3], row = row, eid = eid, sum = 0, damaged = {} }
  for _, key in ipairs({ numbers.hash, numbers.history }) do
    if is_not_hash(key) then
      numbers.damaged[#numbers.damaged + 1] = key
      numbers.is_partial = true
    else
      numbers.sum = numbers.sum + days_sum(key)
    end
  end
  if is_not_totals(numbers.totals, row) then
    numbers.damaged[#numbers.damaged + 1] = numbers.totals
    numbers.lacks_total = true
  else
    numbers.total = total_get(numbers.totals, row, eid)
  end
  return numbers
end

-- What the three numbers must be, for a counter without facts. `value` is false if the counter is missing. Two numbers that agree are
-- right. If all differ, the total is: nothing but the steps that count writes it. If the counter and the total are both missing, they
-- were lost, and the days are right. The sum says nothing if a Hash is damaged, and the total nothing if its key is: then a counter that is
-- not 0 is right. Returns also whether no two numbers agree, or only because the total and the days are missing.
local function day_target(numbers, value)
  local total, sum = numbers.total or 0, numbers.sum
  if not numbers.total and not value and not numbers.is_partial then
    return math.max(0, sum), false
  end
  value = value or 0
  if numbers.is_partial then
    return numbers.total or value, value ~= (numbers.total or value)
  elseif numbers.lacks_total then
    return value ~= 0 and value or math.max(0, sum), value ~= sum
  elseif value == sum or total == sum then
    return math.max(0, sum), value ~= sum and not numbers.total
  elseif not numbers.total and value ~= 0 then
    return value, true
  end
  return total, value ~= total
end

-- Compares the total and the days with what they must be. `is_above` tells for a difference whether it is corrected. Damaged keys are
-- always replaced. Stores in `numbers` the largest difference, whether one is above, and the differences to correct.
local function compare_day_numbers(numbers, expected, corrects)
  numbers.deltas, numbers.difference = {}, 0
  for name, before in pairs({ total = numbers.total or 0, days = numbers.sum }) do
    local delta = expected - before
    numbers.difference = math.max(numbers.difference, math.abs(delta))
    if delta ~= 0 and (#numbers.damaged > 0 or corrects(delta)) then
      numbers.deltas[name] = delta
    end
  end
  numbers.is_wrong = #numbers.damaged > 0 or next(numbers.deltas) ~= nil
end

local function day_numbers_require_permission(numbers)
  days_require_permission(numbers.history)
  totals_require_permission(numbers.totals, numbers.row)
  for _, key in ipairs(numbers.damaged) do
    require_permission('DEL', key)
  end
end

-- The entries of the audit: a list of the number before and after, and its fields and values.
local function day_audit_entries(numbers)
  local entries, before = {}, { total = numbers.total or 0, days = numbers.sum }
  local keys = { total = numbers.totals, days = numbers.hash }
  for _, name in ipairs({ 'total', 'days' }) do
    local delta = numbers.deltas[name]
    if delta then
      entries[#entries + 1] = { before[name], before[name] + delta, { 'number', name, 'key', keys[name] } }
    end
  end
  for _, key in ipairs(numbers.damaged) do
    entries[#entries + 1] = { 0, 0, { 'number', 'key', 'key', key, 'note', 'type' } }
  end
  return entries
end

-- Deletes damaged keys and adds the differences. Which day was lost is not known: that of the days goes to `field` of the archived days.
-- requires: DEL {day_counts}
-- requires: DEL {totals}
local function correct_day_numbers(numbers, field)
  for _, key in ipairs(numbers.damaged) do
    local is_damaged = is_not_hash(key)
    if key == numbers.totals then
      is_damaged = is_not_totals(key, numbers.row)
    end
    -- The totals of other entities are in the same key, and may have been corrected since it was read.
    if is_damaged then
      redis.call('DEL', key)
    end
  end
  local deltas = numbers.deltas
  if deltas.total then
    total_add(numbers.totals, numbers.row, numbers.eid, string.format('%.0f', deltas.total))
  end
  if deltas.days then
    field_add(numbers.history, field, string.format('%.0f', deltas.days))
  end
end
