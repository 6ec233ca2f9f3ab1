-- Appends entries to logs. All are appended, or none.
--
-- KEYS: the logs. ARGV: for each log the number of entries, and field and payload of each. Reply: nil, or the error of the log that
-- refused an entry.
--
-- requires: XADD {log} 0-* f v
-- requires: XDEL {log} 0-1

-- A log rejects an entry if its key holds another type or its last ID is foreign. Earlier appends of the call are then deleted.
local added = {}
local function append(log, field, payload)
  local id = redis.pcall('XADD', log, '0-*', field, payload)
  if type(id) == 'table' then
    for _, entry in ipairs(added) do
      redis.call('XDEL', entry[1], entry[2])
    end
    return id
  end
  added[#added + 1] = { log, id }
end

for _, log in ipairs(KEYS) do
  require_permission('XDEL', log, '0-1')
end
local at = 1
for k = 1, #KEYS do
  local count = tonumber(ARGV[at])
  at = at + 1
  for _ = 1, count do
    local refusal = append(KEYS[k], ARGV[at], ARGV[at + 1])
    if refusal then
      return refusal
    end
    at = at + 2
  end
end
