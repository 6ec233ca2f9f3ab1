-- Starts a new epoch of the layout, and returns it. An epoch is the server's time in microseconds, and greater than the epoch before. A
-- counter would give an epoch twice if the server lost its last writes: a process that follows the lost one must see the next one.
--
-- requires: TIME
-- requires: HGET {layout} f
-- requires: HSET {layout} f v
local function start_epoch(layout, field)
  local time, before = redis.call('TIME'), redis.call('HGET', layout, field) or 0
  local epoch = math.max(time[1] * 1000000 + time[2], before + 1)
  redis.call('HSET', layout, field, string.format('%.0f', epoch))
  return epoch
end
