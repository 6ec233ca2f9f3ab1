-- Counters and id sets on a server with the module.

-- Checks that a key is missing or holds at least `min_len` counters. Returns nil, `type` or `short`.
-- requires: CINT.LEN {counters}
local function counter_mismatch(key, min_len)
  local len = redis.pcall('CINT.LEN', key)
  if type(len) == 'table' then
    if not len.err:find('^WRONGTYPE') then
      error(len)
    end
    return 'type'
  end
  return len > 0 and len < min_len and 'short' or nil
end

local function counter_require_permission(key)
  require_permission('CINT.BATCHINCR', key, 'LEN', 1, 0, 1)
end

-- Adds to counters of an object and grows it to `len` fields if it is shorter. Arguments: idx and delta of each counter. Returns the
-- new values.
-- requires: CINT.BATCHINCR {counters} LEN 1 0 1
local function counter_add(key, len, ...)
  return redis.call('CINT.BATCHINCR', key, 'LEN', len, ...)
end

-- Returns a counter, or false if the object does not exist.
-- requires: CINT.LEN {counters}
-- requires: CINT.GET {counters} 0
local function counter_get(key, idx)
  local len = redis.call('CINT.LEN', key)
  if len == 0 then
    return false
  end
  return tonumber(idx) < len and redis.call('CINT.GET', key, idx) or 0
end

-- Sets a counter to 0 and returns its old value.
-- requires: CINT.LEN {counters}
-- requires: CINT.GETSET {counters} 0 0
local function counter_reset(key, idx)
  return tonumber(idx) < redis.call('CINT.LEN', key) and redis.call('CINT.GETSET', key, idx, 0) or 0
end

-- requires: RBM.CONTAINS {ids} 0
local function ids_contain(key, id)
  return redis.call('RBM.CONTAINS', key, id) == 1
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

-- Returns up to `count` ids from a cursor on, in descending order. Nil on a backend whose id sets have no order.
-- requires: RBM.SCAN {ids} 0 COUNT 1 REV
local function ids_page(key, cursor, count)
  return redis.call('RBM.SCAN', key, cursor, 'COUNT', count, 'REV')
end
