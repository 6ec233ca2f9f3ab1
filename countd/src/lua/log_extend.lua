-- Continues the offsets of a log after an offset that was used before Redis was restored.
--
-- KEYS: the log. ARGV: the offset.
--
-- requires: XINFO STREAM {log}
-- requires: EXISTS {log}
-- requires: XADD {log} 0-* f v
-- requires: XDEL {log} 0-1
local log, offset = KEYS[1], tonumber(ARGV[1])
local last = 0
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
if last < offset then
  local id = string.format('0-%.0f', offset)
  require_permission('XDEL', log, id)
  redis.call('XADD', log, id, 'e', '')
  redis.call('XDEL', log, id)
end
return 1
