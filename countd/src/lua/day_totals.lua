-- The total of an entity, or nil if it has none.
-- requires: CTAB.MGET {totals} 0
-- requires: HGET {day_counts} f
local function total_get(key, row, eid)
  local other = IS_MIXED and total_in_other_form(key, row, eid)
  if row == '' then
    return tonumber(redis.call('HGET', key, eid) or '') or other and other.value
  end
  local counters = redis.call('CTAB.MGET', key, row)[1]
  return counters and counters[1] or other and other.value or nil
end

-- The sum of the values of a Hash of days, and their number.
-- requires: HVALS {day_counts}
local function days_sum(key)
  local sum, values = 0, redis.call('HVALS', key)
  for _, value in ipairs(values) do
    sum = sum + (tonumber(value) or 0)
  end
  return sum, #values
end

-- Whether the total of an entity is in a table.
local function has_total_row(eid)
  return PREFERS_MODULE and is_number(eid)
end
