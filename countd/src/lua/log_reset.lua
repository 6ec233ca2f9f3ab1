-- Restarts a partition at a new position: the retained entries of its log get the offsets from there on, and the others are deleted.
-- An offset is never used twice, so a consumer that was paused cannot mistake a new entry for one that it has read.
--
-- KEYS: the log, the stream that replaces it, the positions, the stream that renumbering creates. ARGV: the partition, the maximum
-- number of entries to move, the expected position ('' if there is none), the new position, which entries of the log are retained:
-- `all`, `none`, or the first ID; '1' if streams are copied to a topic. Reply: how many entries were moved, how many are left (then the
-- script has to be called again), and the new position.
--
-- requires: HGET {position} 0
-- requires: HSET {position} 0 1
-- requires: EXISTS {new}
-- requires: EXISTS {log}
-- requires: EXISTS {reset}
-- requires: XADD {log} 0-* f v
-- requires: XADD {reset} 0-* f v
-- requires: XDEL {log} 0-1
-- requires: XTRIM {log} MAXLEN 0
-- requires: XLEN {log}
-- requires: XRANGE {log} - +
-- requires: XRANGE {reset} - +
-- requires: RENAME {reset} {log}
local CLOSED = '18446744073709551615-13834321097531834207'
local MAX_UNPACK = 4000
local log, new = KEYS[1], KEYS[2]
if (redis.call('HGET', KEYS[3], ARGV[1]) or '') ~= ARGV[3] then
  return redis.error_reply('MOVED_ON the position has changed: run the command again')
end
if redis.call('EXISTS', KEYS[4]) == 1 then
  return redis.error_reply('UNFINISHED ' .. KEYS[4] .. ' has entries of this log: move them, or delete the key')
end
require_permission('XADD', new, '0-*', 'e', '')
require_permission('RENAME', new, log)
require_permission('HSET', KEYS[3], ARGV[1], ARGV[4])
require_permission('XDEL', log, '0-1')
require_permission('XTRIM', log, 'MAXLEN', 0)
-- The log refuses appends until the last call.
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
  redis.call('XADD', new, '0-*', unpack(entry[2], 1, math.min(#entry[2], MAX_UNPACK)))
  redis.call('XDEL', log, entry[1])
  moved = moved + 1
end
local left = redis.call('XLEN', log)
if left > 0 then
  return { moved, left, '' }
end
-- An earlier attempt may have started at another position.
local first = redis.call('XRANGE', new, '-', '+', 'COUNT', 1)[1]
local position = first and first[1]:match('^0%-(%d+)$') or ARGV[4]
redis.call('RENAME', new, log)
redis.call('HSET', KEYS[3], ARGV[1], position)
-- Nothing of the new log was copied to the topic. Left behind, the field would name entries that do not exist any more.
if ARGV[6] == '1' then
  -- Entries before it may have no copy: a rebuild cannot begin there.
  redis.call('HSET', KEYS[3], 'published:' .. ARGV[1], position, 'copies:' .. ARGV[1], position .. ':gap')
end
return { moved, 0, position }
