-- Counters and id sets on a server with the module.

-- Counters are in an object of their own, or in a row of a table. Functions take the key of the object or the table, and the id of the
-- row, which is '' for an object.

-- Checks that a key is missing or holds counters. An object must have at least `min_len` of them. Returns nil, `type` or `short`, and the
-- size unless it holds another type: the number of counters of an object, or of rows of a table. It is 0 for a missing key.
-- requires: CINT.LEN {counters}
-- requires: CTAB.CARD {tables}
local function counter_mismatch(key, row, min_len)
  local size
  if row == '' then
    size = redis.pcall('CINT.LEN', key)
  else
    size = redis.pcall('CTAB.CARD', key)
  end
  if type(size) == 'table' then
    if not size.err:find('^WRONGTYPE') then
      error(size)
    end
    return 'type'
  end
  return row == '' and size > 0 and size < min_len and 'short' or nil, size
end

local function counter_require_permission(key, row)
  if row == '' then
    require_permission('CINT.BATCHINCR', key, 'LEN', 1, 0, 1)
  else
    require_permission('CTAB.BATCHINCR', key, 0, 'LEN', 1, 0, 1)
  end
end

-- Adds to counters and grows the object or the table to `len` counters if it has fewer. Arguments: idx and delta of each counter.
-- Returns the new values.
-- requires: CINT.BATCHINCR {counters} LEN 1 0 1
-- requires: CTAB.BATCHINCR {tables} 0 LEN 1 0 1
local function counter_add(key, row, len, ...)
  if row == '' then
    return redis.call('CINT.BATCHINCR', key, 'LEN', len, ...)
  end
  return redis.call('CTAB.BATCHINCR', key, row, 'LEN', len, ...)
end

-- Returns a counter, or false if the object or the row does not exist.
-- requires: CINT.LEN {counters}
-- requires: CINT.GET {counters} 0
-- requires: CTAB.MGET {tables} 0
local function counter_get(key, row, idx)
  if row ~= '' then
    local counters = redis.call('CTAB.MGET', key, row)[1]
    return counters and (counters[idx + 1] or 0)
  end
  local len = redis.call('CINT.LEN', key)
  if len == 0 then
    return false
  end
  return tonumber(idx) < len and redis.call('CINT.GET', key, idx) or 0
end

-- Returns all counters that can be read, or nil if the object or the row does not exist. None can be read if the key holds another type
-- (`is_damaged`).
-- requires: CINT.DUMP {counters}
-- requires: CTAB.MGET {tables} 0
local function counter_fields(key, row, is_damaged)
  if is_damaged then
    return {}
  end
  local counters
  if row == '' then
    counters = redis.call('CINT.DUMP', key)
  else
    counters = redis.call('CTAB.MGET', key, row)[1]
  end
  return counters and #counters > 0 and counters or nil
end

-- Sets a counter to 0 and returns its old value. Creates nothing.
-- requires: CINT.GETSET {counters} 0 0
-- requires: CTAB.GETSET {tables} 0 0 0
local function counter_reset(key, row, idx)
  local value = counter_get(key, row, idx) or 0
  if value == 0 then
    return 0
  end
  if row == '' then
    return redis.call('CINT.GETSET', key, idx, 0)
  end
  return redis.call('CTAB.GETSET', key, row, idx, 0)
end

-- Returns the counters as a text ('' if they do not exist), and whether all are 0.
-- requires: CINT.DUMP {counters}
-- requires: CTAB.MGET {tables} 0
local function counters_text(key, row)
  local counters
  if row == '' then
    counters = redis.call('CINT.DUMP', key)
  else
    counters = redis.call('CTAB.MGET', key, row)[1]
  end
  local text = counters and #counters .. ':' .. table.concat(counters, ',') or ''
  return text, not text:find(':.*[1-9]')
end

local function counter_delete_require_permission(key, row)
  if row == '' then
    require_permission('DEL', key)
  else
    require_permission('CTAB.DEL', key, row)
  end
end

-- Deletes the object or the row.
-- requires: DEL {counters}
-- requires: CTAB.DEL {tables} 0
local function counter_delete(key, row)
  if row == '' then
    redis.call('DEL', key)
  else
    redis.call('CTAB.DEL', key, row)
  end
end

-- The maximum number of values passed to CTAB.MINCRBY at once, which Lua's stack limits. A multiple of 3.
local MAX_TABLE_VALUES = 3600

-- Whether a key holds another type than a table, and the number of rows if it does not.
local function table_mismatch(key)
  return counter_mismatch(key, 0, 0)
end

local function table_require_permission(key)
  require_permission('CTAB.MINCRBY', key, 'LEN', 1, 0, 0, 1)
end

-- Adds to counters of rows of a table and grows it to `len` counters per row. `values` has id, idx and delta of each from `first` to
-- `last`.
-- requires: CTAB.MINCRBY {tables} LEN 1 0 0 1
local function table_add(key, len, values, first, last)
  for from = first, last, MAX_TABLE_VALUES do
    redis.call('CTAB.MINCRBY', key, 'LEN', len, unpack(values, from, math.min(from + MAX_TABLE_VALUES - 1, last)))
  end
end

-- Returns rows of a table, each as a list of counters; false for a missing row. Nil if the key holds another type.
-- requires: CTAB.MGET {tables} 0
local function table_rows(key, ids)
  local rows = {}
  for from = 1, #ids, MAX_TABLE_VALUES do
    local page = redis.pcall('CTAB.MGET', key, unpack(ids, from, math.min(from + MAX_TABLE_VALUES - 1, #ids)))
    if page.err then
      if not page.err:find('^WRONGTYPE') then
        error(page)
      end
      return nil
    end
    if from == 1 and #ids <= MAX_TABLE_VALUES then
      return page
    end
    for i = 1, math.min(MAX_TABLE_VALUES, #ids - from + 1) do
      rows[from + i - 1] = page[i]
    end
  end
  return rows
end

-- Returns the next cursor, and up to `count` ids of rows.
-- requires: CTAB.SCAN {tables} 0 COUNT 1
local function table_ids(key, cursor, count)
  return redis.call('CTAB.SCAN', key, cursor, 'COUNT', count)
end

-- Sets counters of a row and grows the table to `len` counters per row. `values` has idx and value of each.
-- requires: CTAB.SET {tables} 0 LEN 1 0 0
local function table_set(key, row, len, values)
  redis.call('CTAB.SET', key, row, 'LEN', len, unpack(values))
end

-- requires: CTAB.DEL {tables} 0
local function table_delete(key, row)
  redis.call('CTAB.DEL', key, row)
end

-- requires: RBM.CONTAINS {ids} 0
local function ids_contain(key, id)
  return redis.call('RBM.CONTAINS', key, id) == 1
end

-- Whether a key holds another type than a set of ids.
-- requires: RBM.CONTAINS {ids} 0
local function ids_mismatch(key)
  local reply = redis.pcall('RBM.CONTAINS', key, 0)
  if type(reply) == 'table' and not reply.err:find('^WRONGTYPE') then
    error(reply)
  end
  return type(reply) == 'table'
end

-- Returns the number of ids.
-- requires: RBM.CARD {ids}
local function ids_card(key)
  return redis.call('RBM.CARD', key)
end

local function ids_require_permission(operation, key)
  require_permission(operation == 'add' and 'RBM.ADD' or 'RBM.REM', key, 0)
end

-- requires: RBM.ADD {ids} 0
local function ids_add(key, ids)
  redis.call('RBM.ADD', key, unpack(ids))
end

-- requires: RBM.REM {ids} 0
local function ids_remove(key, id)
  redis.call('RBM.REM', key, id)
end

-- Whether `ids_page` can read a key: Sets have no order.
local function has_ids_pages(_)
  return true
end

-- Returns up to `count` ids from a cursor on, in descending order.
-- requires: RBM.SCAN {ids} 0 COUNT 1 REV
local function ids_page(key, cursor, count)
  return redis.call('RBM.SCAN', key, cursor, 'COUNT', count, 'REV')
end
