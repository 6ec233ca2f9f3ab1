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

-- The total of an entity where the other form of data has it, while an adoption converts the data: in the Hash instead of the table, or
-- in the table instead of the Hash. A total is in one of both. Nil if it is not there. The keys differ in their prefix.
-- requires: HGET {day_counts} f
-- requires: CTAB.MGET {totals} 0
local function total_in_other_form(key, row, eid)
  if not is_number(eid) then
    return nil
  end
  if row == '' then
    local other = 'tot' .. key:sub(5)
    local rows = redis.pcall('CTAB.MGET', other, eid)
    return not rows.err and rows[1] and { key = other, value = rows[1][1] or 0 } or nil
  end
  local other = 'toth' .. key:sub(4)
  local value = redis.pcall('HGET', other, eid)
  -- A total has at most 13 digits.
  value = type(value) == 'string' and value:find('^%d+$') and #value <= 13 and tonumber(value)
  return value and { key = other, value = value } or nil
end

-- Deletes a total that `total_in_other_form` has found.
-- requires: HDEL {day_counts} f
-- requires: CTAB.DEL {totals} 0
local function total_delete_other(other, row, eid)
  if row == '' then
    redis.call('CTAB.DEL', other.key, eid)
  else
    redis.call('HDEL', other.key, eid)
  end
end

-- Moves a total from the other form to this one.
-- requires: CTAB.MINCRBY {totals} LEN 1 0 0 1
local function total_adopt(key, row, eid)
  local other = IS_MIXED and total_in_other_form(key, row, eid)
  if not other then
    return
  end
  local value = string.format('%.0f', other.value)
  if row == '' then
    field_add(key, eid, value)
  else
    redis.call('CTAB.MINCRBY', key, 'LEN', 1, eid, 0, value)
  end
  total_delete_other(other, row, eid)
end

-- Adds to a total in a Hash. Like a counter, it stays at 0 or more.
-- requires: HSET {day_counts} f 1
local function total_field_add(key, field, delta)
  total_adopt(key, '', field)
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
    if IS_MIXED then
      require_permission('CTAB.DEL', 'tot' .. key:sub(5), 0)
    end
  else
    require_permission('CTAB.MINCRBY', key, 'LEN', 1, 0, 0, 1)
    if IS_MIXED then
      require_permission('HDEL', 'toth' .. key:sub(4), 'f')
    end
  end
end

-- Adds to totals in a table. `values` has row, 0 and delta of each from `first` to `last`.
-- requires: CTAB.MINCRBY {totals} LEN 1 0 0 1
local function totals_add(key, values, first, last)
  for at = first, IS_MIXED and last or 0, 3 do
    total_adopt(key, values[at], values[at])
  end
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
