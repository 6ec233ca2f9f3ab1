#!lua flags=no-writes
-- Looks at partitions, all at one moment. KEYS: positions, dead letters, then of each partition its log, and its outbox if ARGV[1]
-- is 1. ARGV: that, then the partitions. Replies texts: what is wrong with the dead letters ('' nothing) and their last ID; then of
-- each partition what is wrong with the positions, its position behind a plus ('' if there is none), what is wrong with the log, its last ID,
-- how many entries it has, the ID of the last one ('0-0' if there is none), what is wrong with the outbox, and its last ID.
local function stream(key)
  local info, last, length, entry = redis.pcall('XINFO', 'STREAM', key), '0-0', 0, '0-0'
  if info.err then
    return info.err:find('no such key') and '' or info.err, last, length, entry
  end
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      last = info[i + 1]
    elseif info[i] == 'length' then
      length = info[i + 1]
    elseif info[i] == 'last-entry' and info[i + 1] then
      entry = info[i + 1][1]
    end
  end
  return '', last, length, entry
end

local problem, last, length = stream(KEYS[2])
local found, at = { problem, last }, 3
local function tell(...)
  for _, text in ipairs({ ... }) do
    found[#found + 1] = tostring(text)
  end
end
for i = 2, #ARGV do
  local position = redis.pcall('HGET', KEYS[1], ARGV[i])
  if type(position) == 'table' then
    tell(position.err, '')
  else
    tell('', position and '+' .. position or '')
  end
  tell(stream(KEYS[at]))
  at = at + 1
  if ARGV[1] == '1' then
    problem, last = stream(KEYS[at])
    at = at + 1
    tell(problem, last)
  else
    tell('', '0-0')
  end
end
return found
