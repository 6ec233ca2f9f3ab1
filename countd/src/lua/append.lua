-- KEYS: logs. ARGV: for each of them how many entries, and field and payload of each. All of it, or nothing.

-- What is appended is taken back where another log refuses: one that holds something else, or ends with an id of others.
local added = {}
local function append(log, field, payload)
  local id = redis.pcall('XADD', log, '0-*', field, payload)
  if type(id) == 'table' then
    for _, one in ipairs(added) do
      redis.call('XDEL', one[1], one[2])
    end
    return id
  end
  added[#added + 1] = { log, id }
end

for _, log in ipairs(KEYS) do
  need('XDEL', log, '0-1')
end
local at = 1
for k = 1, #KEYS do
  local count = tonumber(ARGV[at])
  at = at + 1
  for _ = 1, count do
    local refused = append(KEYS[k], ARGV[at], ARGV[at + 1])
    if refused then
      return refused
    end
    at = at + 2
  end
end
