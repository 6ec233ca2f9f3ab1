-- Renumbers foreign entry IDs: gives entries with foreign IDs the log's next IDs, in order, and makes an emptied log continue after
-- its position.
--
-- A foreign ID is one that no `XADD 0-*` of countd assigned: its first part is not 0, or its second part is far beyond the one
-- before it. After such an entry the log's own IDs are too small, or exceed the range of offsets. A new stream therefore replaces
-- the log. It has the uncounted entries with their IDs, followed by the renumbered entries.
--
-- A log that has entries and ends before its position was deleted and has restarted. Its entries may or may not have been counted,
-- and would be treated as counted once the log grows beyond its position. The log is closed: appends are refused until `countd log
-- reset`.
--
-- KEYS: the log, the stream that replaces it, the positions. ARGV: the partition, the maximum number of entries to copy. Reply: how
-- many entries were renumbered, and whether the script has to be called again (1).
--
-- requires: EXISTS {log}
-- requires: EXISTS {new}
-- requires: XINFO STREAM {log}
-- requires: XINFO STREAM {new}
-- requires: HGET {position} 0
-- requires: XADD {log} 0-* f v
-- requires: XADD {new} 0-* f v
-- requires: XDEL {log} 0-1
-- requires: XRANGE {log} - +
-- requires: XREVRANGE {log} + - COUNT 1
-- requires: RENAME {new} {log}
-- requires: DEL {log}

-- The greatest offset, and the greatest distance between two offsets: as in log/offset.rs.
local MAX_OFFSET, MAX_GAP = 9007199254740991, 4294967296
local MAX_ID = '18446744073709551615-18446744073709551615'
-- The last ID of a closed log.
local CLOSED = '18446744073709551615-13834321097531834207'
-- The maximum number of fields and values that are copied of an entry, which Lua's stack limits.
local MAX_UNPACK = 4000
local log, new, max_entries = KEYS[1], KEYS[2], tonumber(ARGV[2])

-- The offset of an ID; infinite if its first part is not 0.
local function offset_of(id)
  return tonumber(id:match('^0%-(%d+)$') or math.huge)
end

local function own_id(offset)
  return string.format('0-%.0f', offset)
end

-- The last ID of a stream, and its length.
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

local function unpack_fields(fields)
  return unpack(fields, 1, math.min(#fields, MAX_UNPACK))
end

local position = redis.call('HGET', KEYS[3], ARGV[1]) or '1'
if not position:match('^%d+$') then
  return redis.error_reply('DAMAGED the position of the log is not a number')
end
local counted = math.max(tonumber(position) - 1, 0)
local last, length = stream(log)

local ends_before_position = offset_of(last) < counted
if offset_of(last) <= MAX_OFFSET and offset_of(last) - counted <= MAX_GAP and not ends_before_position then
  return { 0, 0 }
end
require_permission('XADD', new, '0-*', 'e', '')
require_permission('XDEL', log, '0-1')
require_permission('RENAME', new, log)
require_permission('DEL', log)

local has_restarted = ends_before_position and length > 0
if counted > 0 and not ends_before_position then
  -- The log may be closed, or have a foreign entry since it started again.
  local newest = redis.call('XREVRANGE', log, own_id(math.min(counted + MAX_GAP, MAX_OFFSET)), '-', 'COUNT', 1)[1]
  has_restarted = newest and offset_of(newest[1]) < counted
end
if has_restarted then
  if last ~= CLOSED and type(redis.pcall('XADD', log, CLOSED, 'e', '')) == 'string' then
    redis.call('XDEL', log, CLOSED)
  end
  return redis.error_reply('RESTARTED the log ends before its position: see countd log reset')
end

local copied = redis.call('EXISTS', new) == 1 and stream(new) or own_id(counted)
if math.max(offset_of(copied), counted) + max_entries > MAX_OFFSET then
  return redis.error_reply('USEDUP the log has used up its IDs: see countd log reset')
end
if offset_of(copied) < counted then
  -- All copied entries have been counted since, and some of those after them may have been trimmed.
  redis.call('XADD', new, 'MAXLEN', 0, own_id(counted), 'e', '')
  copied = own_id(counted)
end
-- The new stream continues after what was counted, even if no entry of it is left.
if copied ~= '0-0' and redis.call('EXISTS', new) == 0 then
  redis.call('XADD', new, 'MAXLEN', 0, copied, 'e', '')
end
local at, foreign, seen = offset_of(copied), 0, copied
for _, entry in ipairs(redis.call('XRANGE', log, '(' .. copied, '+', 'COUNT', max_entries)) do
  local id = offset_of(entry[1])
  seen = entry[1]
  if foreign == 0 and id <= MAX_OFFSET and id - at <= MAX_GAP then
    redis.call('XADD', new, entry[1], unpack_fields(entry[2]))
    at = id
  else
    redis.call('XADD', new, '0-*', unpack_fields(entry[2]))
    redis.call('XDEL', log, entry[1])
    foreign = foreign + 1
  end
end
-- Copied entries are not read until the new stream has the log's name, so only the last call may rename it. No range can start after
-- the greatest ID.
if seen ~= MAX_ID and #redis.call('XRANGE', log, '(' .. seen, '+', 'COUNT', 1) > 0 then
  return { foreign, 1 }
end
if redis.call('EXISTS', new) == 1 then
  redis.call('RENAME', new, log)
else
  redis.call('DEL', log)
end
return { foreign, 0 }
