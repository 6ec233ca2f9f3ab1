-- What scripts do with counters and with sets of ids where the server has the module.

-- Whether a key is free or holds at least so many counters: else `type` or `short`.
local function counter_misfit(key, least)
  local len = redis.pcall('CINT.LEN', key)
  if type(len) == 'table' then
    if not len.err:find('^WRONGTYPE') then
      error(len)
    end
    return 'type'
  end
  return len > 0 and len < least and 'short' or nil
end

local function counter_need(key)
  need('CINT.BATCHINCR', key, 'LEN', 1, 0, 1)
end

-- Adds to fields of counters that have at least `len` fields afterwards: idx and delta of each. The values after.
local function counter_add(key, len, ...)
  return redis.call('CINT.BATCHINCR', key, 'LEN', len, ...)
end

-- A field; false where there are no counters.
local function counter_get(key, idx)
  local len = redis.call('CINT.LEN', key)
  if len == 0 then
    return false
  end
  return tonumber(idx) < len and redis.call('CINT.GET', key, idx) or 0
end

-- Sets a field to 0. What it was.
local function counter_reset(key, idx)
  return tonumber(idx) < redis.call('CINT.LEN', key) and redis.call('CINT.GETSET', key, idx, 0) or 0
end

local function ids_have(key, id)
  return redis.call('RBM.CONTAINS', key, id) == 1
end

local function ids_need(what, key)
  need(what == 'add' and 'RBM.ADD' or 'RBM.REM', key, 0)
end

local function ids_add(key, ids)
  redis.call('RBM.ADD', key, unpack(ids))
end

local function ids_remove(key, id)
  redis.call('RBM.REM', key, id)
end

-- Up to `count` ids from a cursor on, the greatest first; nil where ids are kept in no order.
local function ids_page(key, cursor, count)
  return redis.call('RBM.SCAN', key, cursor, 'COUNT', count, 'REV')
end
