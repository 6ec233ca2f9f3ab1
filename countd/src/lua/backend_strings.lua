-- The functions of backend_module.lua for data without the module. Counters are Strings of unsigned big-endian 40-bit fields, the
-- format of the fallback library and of CINT.EXPORT. There are no tables: `row` is always ''. Id sets are Sets.

local FIELD_BYTES = 5

-- requires: STRLEN {counters}
local function counter_mismatch(key, _, min_len)
  local bytes = redis.pcall('STRLEN', key)
  if type(bytes) == 'table' then
    if not bytes.err:find('^WRONGTYPE') then
      error(bytes)
    end
    return 'type'
  end
  if bytes % FIELD_BYTES ~= 0 then
    return 'type'
  end
  return bytes > 0 and bytes < min_len * FIELD_BYTES and 'short' or nil
end

local function counter_require_permission(key, _)
  require_permission('BITFIELD', key, 'INCRBY', 'u40', '#0', 1)
end

-- requires: STRLEN {counters}
-- requires: BITFIELD {counters} INCRBY u40 #0 1
local function counter_add(key, _, len, ...)
  local changes, operations = { ... }, { 'OVERFLOW', 'SAT' }
  local function operation(name, idx, number)
    for _, word in ipairs({ name, 'u40', '#' .. idx, number }) do
      operations[#operations + 1] = word
    end
  end
  local grows = redis.call('STRLEN', key) < len * FIELD_BYTES
  if grows then
    operation('SET', len - 1, 0)
  end
  for i = 1, #changes, 2 do
    operation('INCRBY', changes[i], changes[i + 1])
  end
  local values = redis.call('BITFIELD', key, unpack(operations))
  if grows then
    table.remove(values, 1)
  end
  return values
end

-- requires: EXISTS {counters}
-- requires: BITFIELD_RO {counters} GET u40 #0
local function counter_get(key, _, idx)
  return redis.call('EXISTS', key) == 1 and redis.call('BITFIELD_RO', key, 'GET', 'u40', '#' .. idx)[1]
end

-- requires: STRLEN {counters}
-- requires: BITFIELD_RO {counters} GET u40 #0
local function counter_fields(key)
  local bytes = redis.pcall('STRLEN', key)
  -- The key holds another type.
  if type(bytes) == 'table' then
    return {}
  end
  local operations = {}
  for idx = 0, math.floor(bytes / FIELD_BYTES) - 1 do
    for _, word in ipairs({ 'GET', 'u40', '#' .. idx }) do
      operations[#operations + 1] = word
    end
  end
  if #operations == 0 then
    return bytes > 0 and {} or nil
  end
  return redis.call('BITFIELD_RO', key, unpack(operations))
end

-- requires: STRLEN {counters}
-- requires: BITFIELD {counters} INCRBY u40 #0 1
local function counter_reset(key, _, idx)
  local exists = idx * FIELD_BYTES < redis.call('STRLEN', key)
  return exists and redis.call('BITFIELD', key, 'SET', 'u40', '#' .. idx, 0)[1] or 0
end

-- requires: GET {counters}
local function counters_text(key, _)
  local bytes = redis.call('GET', key) or ''
  local text = bytes:gsub('.', function(byte)
    return string.format('%02x', byte:byte())
  end)
  return text, not bytes:find('%Z')
end

local function counter_delete_require_permission(key, _)
  require_permission('DEL', key)
end

-- requires: DEL {counters}
local function counter_delete(key, _)
  redis.call('DEL', key)
end

local table_mismatch, table_require_permission, table_add, table_rows, table_ids, table_set, table_delete

-- requires: SISMEMBER {ids} 0
local function ids_contain(key, id)
  return redis.call('SISMEMBER', key, id) == 1
end

-- requires: SISMEMBER {ids} 0
local function ids_mismatch(key)
  local reply = redis.pcall('SISMEMBER', key, 0)
  if type(reply) == 'table' and not reply.err:find('^WRONGTYPE') then
    error(reply)
  end
  return type(reply) == 'table'
end

-- requires: SCARD {ids}
local function ids_card(key)
  return redis.call('SCARD', key)
end

local function ids_require_permission(operation, key)
  require_permission(operation == 'add' and 'SADD' or 'SREM', key, 0)
end

-- requires: SADD {ids} 0
local function ids_add(key, ids)
  redis.call('SADD', key, unpack(ids))
end

-- requires: SREM {ids} 0
local function ids_remove(key, id)
  redis.call('SREM', key, id)
end

local function has_ids_pages(_)
  return false
end

local ids_page
