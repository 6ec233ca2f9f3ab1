-- Gives entries of a log whose ids are none of its own the log's next ids, in their order.
--
-- An id that is greater than all of the log's own closes the log: `XADD 0-*` is refused from then on. So a new stream takes the log's
-- place, with what has not been counted under the ids that it had, and the others behind. Until then the log stays closed, so
-- nothing can come between.
--
-- KEYS: the log, the stream that takes its place, the positions. ARGV: the partition, how many entries are copied at most. Replies
-- how many entries got ids of the log, and whether there are more (1): then it has to be called again.
local LAST = '0-9007199254740991'
-- Lua has no room for more words of an entry.
local WORDS = 4000
local log, new, room = KEYS[1], KEYS[2], tonumber(ARGV[2])

local function number(id)
  return tonumber(id:match('^0%-(%d+)$') or math.huge)
end

local function last_id(key)
  local info = redis.call('XINFO', 'STREAM', key)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      return info[i + 1]
    end
  end
end

local function words(fields)
  return unpack(fields, 1, math.min(#fields, WORDS))
end

local function is_own(id)
  return number(id) <= number(LAST)
end

if redis.call('EXISTS', log) == 0 or is_own(last_id(log)) then
  return { 0, 0 }
end
need('XADD', new, '0-*', 'e', '')
need('XDEL', log, '0-1')
need('RENAME', new, log)
need('DEL', log)
local counted = tonumber(redis.call('HGET', KEYS[3], ARGV[1]) or 1) - 1
local first = string.format('0-%.0f', counted)
local last = redis.call('EXISTS', new) == 1 and last_id(new) or first
if math.max(number(last), counted) + room > number(LAST) then
  return redis.error_reply('ERR the log has used up its ids')
end
if number(last) < counted then
  -- All that was copied has been counted since, and of what follows it some may have been trimmed.
  redis.call('XADD', new, 'MAXLEN', 0, first, 'e', '')
  last = first
end

local own = redis.call('XRANGE', log, '(' .. last, LAST, 'COUNT', room)
local others = redis.call('XRANGE', log, '(' .. LAST, '+', 'COUNT', room - #own)
if #own == room then
  others = {}
end
-- It goes on behind what was counted, also if nothing of it is left.
if last ~= '0-0' and redis.call('EXISTS', new) == 0 then
  redis.call('XADD', new, 'MAXLEN', 0, last, 'e', '')
end
for _, entry in ipairs(own) do
  redis.call('XADD', new, entry[1], words(entry[2]))
end
for _, entry in ipairs(others) do
  redis.call('XADD', new, '0-*', words(entry[2]))
  redis.call('XDEL', log, entry[1])
end
-- Only the last step may end in between: what is copied is seen by nobody until the new stream has the log's name.
if #own == room or #redis.call('XRANGE', log, '(' .. LAST, '+', 'COUNT', 1) > 0 then
  return { #others, 1 }
end
if redis.call('EXISTS', new) == 1 then
  redis.call('RENAME', new, log)
else
  redis.call('DEL', log)
end
return { #others, 0 }
