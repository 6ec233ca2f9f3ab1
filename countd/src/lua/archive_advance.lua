-- Records how far logs are archived.
--
-- A partition stays as it is if another process was faster, or if the log is no longer the one that was read: Redis may have lost its last
-- writes.
--
-- KEYS: the Hash of archived offsets, the positions, the holds of a rebuild, then for each partition its log and the outcomes of its entries. ARGV: for each
-- partition its number, the expected and the new offset, and the offset and the payload of its last entry ('' without one). Reply: for each
-- partition 1 if it was advanced, or 0.
--
-- requires: HGET {archived} 0
-- requires: HSET {archived} 0 1
-- requires: HGET {position} 0
-- requires: XRANGE {log} - +
-- requires: HGET {hold} 0
-- requires: HKEYS {outcomes}
-- requires: HDEL {outcomes} 1
local MAX_UNPACK = 1000
-- The payload of an entry as countd reads it: that of a group with its users.
local function payload_of(fields)
  if fields[1] == 'g' and fields[3] == 'members' then
    return fields[2]:sub(1, -2) .. ',"uids":["' .. fields[4]:gsub(',', '","') .. '"]}'
  end
  return fields[2]
end
local advanced = {}
for i = 1, #ARGV / 5 do
  local partition, expected, next, last, payload = unpack(ARGV, 5 * i - 4, 5 * i)
  local log, outcomes = KEYS[2 * i + 2], KEYS[2 * i + 3]
  require_permission('HSET', KEYS[1], partition, next)
  require_permission('HDEL', outcomes, '1')
  local position = tonumber(redis.call('HGET', KEYS[2], partition) or 1)
  local is_same = redis.call('HGET', KEYS[1], partition) == expected and position >= tonumber(next)
  if is_same and last ~= '' then
    local entry = redis.call('XRANGE', log, '0-' .. last, '0-' .. last)[1]
    -- An erasure may have deleted it.
    is_same = not entry or payload_of(entry[2]):sub(1, #payload) == payload
  end
  if is_same then
    -- A rebuild reads the entries that it holds from the log.
    local archived, hold = {}, tonumber(redis.call('HGET', KEYS[3], partition) or next)
    for _, offset in ipairs(redis.call('HKEYS', outcomes)) do
      local number = tonumber(offset)
      -- Those of a former topic are not numbers.
      if number and number < math.min(hold, tonumber(next)) then
        archived[#archived + 1] = offset
      end
    end
    for from = 1, #archived, MAX_UNPACK do
      redis.call('HDEL', outcomes, unpack(archived, from, math.min(from + MAX_UNPACK - 1, #archived)))
    end
    redis.call('HSET', KEYS[1], partition, next)
  end
  advanced[i] = is_same and 1 or 0
end
return advanced
