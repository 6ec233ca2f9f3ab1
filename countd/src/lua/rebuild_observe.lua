-- Reads counters of entities of a partition and their shadows, and what the log had at that moment.
--
-- KEYS: the positions, the log, the audit, the holds, the offsets of the shadows, then counters and shadows. ARGV: the partition, then of
-- each entity the indexes of the keys of its counters and of its shadow, and the row. Reply: the position, the last ID of the log, the last
-- ID of the audit, the first offset that is kept ('' without one), the position in the topic, the offsets of the shadows in the log and in
-- the topic ('' without one), the history of the server, then for each entity 0 if it has no counters, 1 if it has, or 2 if their key has another type; the
-- counters; and the shadow.
--
-- requires: HGET {position} 0
-- requires: HGET {hold} 0
-- requires: HGET {replay_offsets} 0

-- The last ID of a stream.
-- requires: XINFO STREAM {log}
-- requires: XINFO STREAM {audit}
local function last_id(key)
  local info = redis.pcall('XINFO', 'STREAM', key)
  if info.err then
    if not info.err:find('no such key') then
      error(info)
    end
    return '0-0'
  end
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      return info[i + 1]
    end
  end
end

local reply = {
  redis.call('HGET', KEYS[1], ARGV[1]) or '1', last_id(KEYS[2]), last_id(KEYS[3]), redis.call('HGET', KEYS[4], ARGV[1]) or '',
  redis.call('HGET', KEYS[1], 'topic:' .. ARGV[1]) or '0', redis.call('HGET', KEYS[5], ARGV[1]) or '',
  redis.call('HGET', KEYS[5], 'topic:' .. ARGV[1]) or '', server_history(),
}
for i = 2, #ARGV, 3 do
  local counters, shadow, row = KEYS[5 + ARGV[i]], KEYS[5 + ARGV[i + 1]], ARGV[i + 2]
  local is_damaged = counter_mismatch(counters, row, 0) == 'type'
  local fields = not is_damaged and counter_fields(counters, row, false) or nil
  reply[#reply + 1] = is_damaged and 2 or fields and 1 or 0
  reply[#reply + 1] = fields or {}
  reply[#reply + 1] = counter_fields(shadow, row, false) or {}
end
return reply
