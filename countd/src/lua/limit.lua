#!lua
-- GCRA. KEYS: for each client the time in microseconds at which it will be even with the rate (its theoretical arrival time).
-- ARGV: microseconds that an item takes, microseconds of a burst, then for each client how many items it must get at least
-- (else it gets none) and at most. Replies for each how many it gets, and how many microseconds it is ahead then.
local each, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local reply = {}
for k = 1, #KEYS do
  local least, most = tonumber(ARGV[2 * k + 1]), tonumber(ARGV[2 * k + 2])
  local ahead = (tonumber(redis.call('GET', KEYS[k]) or '') or now) - now
  -- Never more than a burst: another server's clock may have been behind this one's.
  ahead = math.max(0, math.min(ahead, burst))
  local got = math.min(most, math.floor((burst - ahead) / each))
  if got < least then
    got = 0
  end
  if got > 0 then
    ahead = ahead + got * each
    redis.call('SET', KEYS[k], string.format('%.0f', now + ahead), 'PX', math.ceil(ahead / 1000))
  end
  reply[2 * k - 1] = got
  reply[2 * k] = math.ceil(ahead)
end
return reply
