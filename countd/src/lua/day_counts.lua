-- Counts by day and totals. The total of an entity is what its counter and its days have counted, in a row of a table (`row` is its ID),
-- or in a field of a Hash (`row` is '').

-- Whether a key holds another type than a Hash.
-- requires: HLEN {day_counts}
local function is_not_hash(key)
  local len = redis.pcall('HLEN', key)
  if type(len) == 'table' and not len.err:find('^WRONGTYPE') then
    error(len)
  end
  return type(len) == 'table'
end

local function days_require_permission(key)
  require_permission('HINCRBY', key, 'f', 1)
  require_permission('HSET', key, 'f', 1)
end

-- Adds to a field of a Hash, and replaces a value that is not an integer. Returns the new value.
-- requires: HINCRBY {day_counts} f 1
-- requires: HSET {day_counts} f 1
local function field_add(key, field, delta)
  local value = redis.pcall('HINCRBY', key, field, delta)
  if type(value) == 'table' then
    redis.call('HSET', key, field, delta)
    return tonumber(delta)
  end
  return value
end

-- Adds to a total in a Hash. Like a counter, it stays at 0 or more.
-- requires: HSET {day_counts} f 1
local function total_field_add(key, field, delta)
  if field_add(key, field, delta) < 0 then
    redis.call('HSET', key, field, 0)
  end
end

-- Whether a key holds another type than that of totals.
-- requires: CTAB.CARD {totals}
local function is_not_totals(key, row)
  if row == '' then
    return is_not_hash(key)
  end
  local card = redis.pcall('CTAB.CARD', key)
  if type(card) == 'table' and not card.err:find('^WRONGTYPE') then
    error(card)
  end
  return type(card) == 'table'
end

local function totals_require_permission(key, row)
  if row == '' then
    days_require_permission(key)
  else
    require_permission('CTAB.MINCRBY', key, 'LEN', 1, 0, 0, 1)
  end
end

-- Adds to totals in a table. `values` has row, 0 and delta of each from `first` to `last`.
-- requires: CTAB.MINCRBY {totals} LEN 1 0 0 1
local function totals_add(key, values, first, last)
  -- Lua's stack limits the number of values. A multiple of 3.
  for from = first, last, 3600 do
    redis.call('CTAB.MINCRBY', key, 'LEN', 1, unpack(values, from, math.min(from + 3599, last)))
  end
end

local function total_add(key, row, eid, delta)
  if row == '' then
    total_field_add(key, eid, delta)
  else
    totals_add(key, { row, 0, delta }, 1, 3)
  end
end
