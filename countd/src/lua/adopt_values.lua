-- Converts counters and id sets of data that was created without the module to the module's types.
--
-- KEYS: keys of one slot. ARGV: of each `counters` or `ids`. Reply: how many were converted, and the number of each key that cannot be: it
-- holds another type, or other values.
--
-- requires: TYPE {counters}
-- requires: STRLEN {counters}
-- requires: CINT.ADOPT {counters} LEN 1 FORCE
-- requires: RBM.ADOPT {ids}
local FIELD_BYTES = 5
local reply = { 0 }
for k, key in ipairs(KEYS) do
  local kind, result = redis.call('TYPE', key).ok, nil
  if ARGV[k] == 'counters' and kind == 'string' then
    result = redis.pcall('CINT.ADOPT', key, 'LEN', math.max(1, math.ceil(redis.call('STRLEN', key) / FIELD_BYTES)), 'FORCE')
  elseif ARGV[k] == 'ids' and kind == 'set' then
    result = redis.pcall('RBM.ADOPT', key)
  elseif kind ~= 'none' and kind ~= (ARGV[k] == 'ids' and 'RoaringBM' or 'CountInt5') then
    reply[#reply + 1] = k
  end
  if result and result.ok then
    reply[1] = reply[1] + 1
  elseif result and (result.err:find('^WRONGTYPE') or result.err:find('invalid payload', 1, true)) then
    reply[#reply + 1] = k
  elseif result then
    error(result)
  end
end
return reply
