-- Puts a log in order: gives entries with foreign IDs the log's next IDs, in their order, and lets an emptied log go on behind its
-- position.
--
-- A foreign ID is one that no `XADD 0-*` of countd made: another first half, or a second half far beyond the one before it. Behind
-- it the log's own IDs do not fit any more, or run out of the range in which they are counted. So a new stream takes the log's
-- place, with what has not been counted under the IDs that it had, and the others behind.
--
-- A log that has entries and ends before its position was deleted, and has begun again: what is in it may have been counted or not,
-- and it would seem counted as soon as the log has grown beyond its position. It is closed, so that requests are refused and not
-- acknowledged, until `countd log reset`.
--
-- KEYS: the log, the stream that takes its place, the positions. ARGV: the partition, how many entries are copied at most. Replies
-- how many entries got IDs of the log, and whether there are more (1): then it has to be called again.

-- The greatest offset, and the greatest distance between two: as in log/renumber.rs.
local LAST, GAP = 9007199254740991, 4294967296
local GREATEST = '18446744073709551615-18446744073709551615'
-- The last ID of a log that is closed.
local CLOSED = '18446744073709551615-13834321097531834207'
-- Lua has no room for more words of an entry.
local WORDS = 4000
local log, new, room = KEYS[1], KEYS[2], tonumber(ARGV[2])

local function number(id)
  return tonumber(id:match('^0%-(%d+)$') or math.huge)
end

local function own(offset)
  return string.format('0-%.0f', offset)
end

-- The last ID of a stream, and how many entries it has.
local function stream(key)
  local last, length = '0-0', 0
  if redis.call('EXISTS', key) == 1 then
    local info = redis.call('XINFO', 'STREAM', key)
    for i = 1, #info, 2 do
      if info[i] == 'last-generated-id' then
        last = info[i + 1]
      elseif info[i] == 'length' then
        length = info[i + 1]
      end
    end
  end
  return last, length
end

local function words(fields)
  return unpack(fields, 1, math.min(#fields, WORDS))
end

local position = redis.call('HGET', KEYS[3], ARGV[1]) or '1'
if not position:match('^%d+$') then
  return redis.error_reply('DAMAGED the position of the log is no number')
end
local counted = math.max(tonumber(position) - 1, 0)
local last, length = stream(log)

local is_before = number(last) < counted
if number(last) <= LAST and number(last) - counted <= GAP and not is_before then
  return { 0, 0 }
end
need('XADD', new, '0-*', 'e', '')
need('XDEL', log, '0-1')
need('RENAME', new, log)
need('DEL', log)

local has_restarted = is_before and length > 0
if counted > 0 and not is_before then
  -- It may be closed, or have got a foreign entry since it began again.
  local top = redis.call('XREVRANGE', log, own(math.min(counted + GAP, LAST)), '-', 'COUNT', 1)[1]
  has_restarted = top and number(top[1]) < counted
end
if has_restarted then
  if last ~= CLOSED and type(redis.pcall('XADD', log, CLOSED, 'e', '')) == 'string' then
    redis.call('XDEL', log, CLOSED)
  end
  return redis.error_reply('RESTARTED the log ends before its position: see countd log reset')
end

local copied = redis.call('EXISTS', new) == 1 and stream(new) or own(counted)
if math.max(number(copied), counted) + room > LAST then
  return redis.error_reply('USEDUP the log has used up its IDs: see countd log reset')
end
if number(copied) < counted then
  -- All that was copied has been counted since, and of what follows it some may have been trimmed.
  redis.call('XADD', new, 'MAXLEN', 0, own(counted), 'e', '')
  copied = own(counted)
end
-- It goes on behind what was counted, also if nothing of it is left.
if copied ~= '0-0' and redis.call('EXISTS', new) == 0 then
  redis.call('XADD', new, 'MAXLEN', 0, copied, 'e', '')
end
local at, foreign, seen = number(copied), 0, copied
for _, entry in ipairs(redis.call('XRANGE', log, '(' .. copied, '+', 'COUNT', room)) do
  local id = number(entry[1])
  seen = entry[1]
  if foreign == 0 and id <= LAST and id - at <= GAP then
    redis.call('XADD', new, entry[1], words(entry[2]))
    at = id
  else
    redis.call('XADD', new, '0-*', words(entry[2]))
    redis.call('XDEL', log, entry[1])
    foreign = foreign + 1
  end
end
-- Only the last step may end in between: what is copied is not read until the new stream has the log's name. Behind the greatest ID
-- no range can begin.
if seen ~= GREATEST and #redis.call('XRANGE', log, '(' .. seen, '+', 'COUNT', 1) > 0 then
  return { foreign, 1 }
end
if redis.call('EXISTS', new) == 1 then
  redis.call('RENAME', new, log)
else
  redis.call('DEL', log)
end
return { foreign, 0 }
