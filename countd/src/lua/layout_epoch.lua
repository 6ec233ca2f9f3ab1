-- Starts a new epoch of the layout, and returns it. It precedes the other writes of a script, because it can fail.
--
-- An epoch is the server's time in milliseconds, and greater than the epoch before. A counter would give an epoch twice if the server lost
-- its last writes: a process that follows a lost epoch would take an equal one for it, and not read the layout again. The clocks of servers
-- may differ by less than a failover takes.
--
-- requires: TIME
-- requires: HGET {layout} f
-- requires: HSET {layout} f v
local function start_epoch(layout, field)
  local time, before = redis.call('TIME'), redis.call('HGET', layout, field) or 0
  local epoch = math.max(time[1] * 1000 + math.floor(time[2] / 1000), before + 1)
  redis.call('HSET', layout, field, string.format('%.0f', epoch))
  return epoch
end
