-- Trims counted entries of logs.
--
-- Since they were counted, the log may have been deleted and have restarted, or the position may have been set back. So only entries before
-- the stored position are trimmed, and only of a log that has reached its position.
--
-- KEYS: the positions, then the logs. ARGV: for each log its partition, how many counted entries are retained, and the first offset that a sink
-- has not read ('' without one).
--
-- requires: HGET {position} 0
-- requires: XINFO STREAM {log}
-- requires: XTRIM {log} MINID 0-1
for k = 2, #KEYS do
  local partition, retain, held = ARGV[3 * k - 5], ARGV[3 * k - 4], tonumber(ARGV[3 * k - 3])
  local position = redis.pcall('HGET', KEYS[1], partition)
  local info = redis.pcall('XINFO', 'STREAM', KEYS[k])
  local last
  for i = 1, not info.err and #info or 0, 2 do
    if info[i] == 'last-generated-id' then
      last = tonumber(info[i + 1]:match('^0%-(%d+)$'))
    end
  end
  position = type(position) == 'string' and position:match('^%d+$') and tonumber(position)
  local from = position and math.min(position, held or position) - retain
  if last and position and last >= position - 1 and from > 0 then
    redis.call('XTRIM', KEYS[k], 'MINID', '~', string.format('0-%.0f', from))
  end
end
