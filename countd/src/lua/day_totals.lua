-- The total of an entity, or nil if it has none.
-- requires: CTAB.MGET {totals} 0
-- requires: HGET {day_counts} f
local function total_get(key, row, eid)
  if row == '' then
    return tonumber(redis.call('HGET', key, eid) or '')
  end
  local counters = redis.call('CTAB.MGET', key, row)[1]
  return counters and counters[1] or nil
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
  if not table_rows then
    return false
  end
  local is_decimal = eid == '0' or eid:find('^[1-9]%d*$')
  return is_decimal and (#eid < 20 or #eid == 20 and eid <= '18446744073709551615')
end
