-- Continues the offsets of a log or an outbox after an offset that may have been used before Redis was restored.
--
-- KEYS: the log or the outbox. ARGV: the offset, or `+` and the distance from the last one.
--
-- requires: XINFO STREAM {log}
-- requires: EXISTS {log}
-- requires: XADD {log} 0-* f v
-- requires: XDEL {log} 0-1
local log, last = KEYS[1], 0
if redis.call('EXISTS', log) == 1 then
  local info = redis.call('XINFO', 'STREAM', log)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      last = tonumber(info[i + 1]:match('^0%-(%d+)$'))
    end
  end
end
if not last then
  return redis.error_reply('ERR the log has foreign IDs: repair it with countd check first')
end
local offset = tonumber(ARGV[1])
if ARGV[1]:sub(1, 1) == '+' then
  offset = last + tonumber(ARGV[1]:sub(2))
end
if last < offset then
  local id = string.format('0-%.0f', offset)
  require_permission('XDEL', log, id)
  redis.call('XADD', log, id, 'e', '')
  redis.call('XDEL', log, id)
end
return 1
