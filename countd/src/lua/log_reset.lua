-- Lets a partition go on from a new position: the entries of its log that are left get the offsets from there on, and the others
-- are gone. An offset is never used twice, so no consumer that slept can take what it read before for what is there now.
--
-- KEYS: the log, the stream that takes its place, the positions, the stream that renumbering makes. ARGV: the partition, how many
-- entries are moved at most, the position as it is ('' if there is none), the new position, what of the log is kept: `all`, `none`
-- or an ID, from which on it is. Replies how many were moved, whether there are more (1), then it has to be called again, and the
-- new position.
local CLOSED = '18446744073709551615-13834321097531834207'
local WORDS = 4000
local log, new = KEYS[1], KEYS[2]
if (redis.call('HGET', KEYS[3], ARGV[1]) or '') ~= ARGV[3] then
  return redis.error_reply('MOVED_ON the position is another one by now: look again')
end
if redis.call('EXISTS', KEYS[4]) == 1 then
  return redis.error_reply('UNFINISHED entries of this log lie in ' .. KEYS[4] .. ': move them, or delete it')
end
need('XADD', new, '0-*', 'e', '')
need('RENAME', new, log)
need('HSET', KEYS[3], ARGV[1], ARGV[4])
need('XDEL', log, '0-1')
need('XTRIM', log, 'MAXLEN', 0)
-- Until the last step requests are refused.
if redis.call('EXISTS', log) == 1 and type(redis.pcall('XADD', log, CLOSED, 'e', '')) == 'string' then
  redis.call('XDEL', log, CLOSED)
end
if ARGV[5] == 'none' then
  redis.call('XTRIM', log, 'MAXLEN', 0)
elseif ARGV[5] ~= 'all' then
  redis.call('XTRIM', log, 'MINID', ARGV[5])
end
if redis.call('EXISTS', new) == 0 then
  redis.call('XADD', new, 'MAXLEN', 0, string.format('0-%.0f', ARGV[4] - 1), 'e', '')
end
local moved = 0
for _, entry in ipairs(redis.call('XRANGE', log, '-', '+', 'COUNT', ARGV[2])) do
  redis.call('XADD', new, '0-*', unpack(entry[2], 1, math.min(#entry[2], WORDS)))
  redis.call('XDEL', log, entry[1])
  moved = moved + 1
end
if #redis.call('XRANGE', log, '-', '+', 'COUNT', 1) > 0 then
  return { moved, 1, '' }
end
-- An earlier attempt may have begun at another position.
local first = redis.call('XRANGE', new, '-', '+', 'COUNT', 1)[1]
local position = first and first[1]:match('^0%-(%d+)$') or ARGV[4]
redis.call('RENAME', new, log)
redis.call('HSET', KEYS[3], ARGV[1], position)
return { moved, 0, position }
