#!lua flags=no-writes
-- The state of partitions at one moment.
--
-- KEYS: the positions, the dead letters, then for each partition its log, and its outbox if ARGV[1] is 1. ARGV: that flag, then the
-- partitions. Reply, as strings: the error of the dead letters ('' if none), their last ID and their number; then for each partition
-- the error of the positions, the position with a `+` before it ('' if there is none), the error of the log, its last ID, its length,
-- the ID of its last entry ('0-0' if it is empty), the error of the outbox, its last ID, and its length.
--
-- requires: XINFO STREAM {dead}
-- requires: XINFO STREAM {log}
-- requires: XINFO STREAM {out}
-- requires: HGET {position} 0

-- Error, last ID, length and ID of the last entry of a stream.
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
local reply, at = { problem, last, tostring(length) }, 3
local function add(...)
  for _, text in ipairs({ ... }) do
    reply[#reply + 1] = tostring(text)
  end
end
for i = 2, #ARGV do
  local position = redis.pcall('HGET', KEYS[1], ARGV[i])
  if type(position) == 'table' then
    add(position.err, '')
  else
    add('', position and '+' .. position or '')
  end
  add(stream(KEYS[at]))
  at = at + 1
  if ARGV[1] == '1' then
    problem, last, length = stream(KEYS[at])
    at = at + 1
    add(problem, last, length)
  else
    add('', '0-0', 0)
  end
end
return reply
