#!lua
-- GCRA. KEYS: for each client its theoretical arrival time (when it will be even with the rate) and when that was written, in
-- microseconds: `{arrival}@{written}`.
-- ARGV: microseconds that an item takes, microseconds of a burst, then for each client how many items it must get at least
-- (else it gets none) and at most. Replies for each how many it gets, and how many microseconds it is ahead then.
local each, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local reply = {}

-- How far a client is ahead of the rate, and whether that has to be written even if it gets nothing.
local function ahead_of(stored)
  local arrival, written = (stored or ''):match('^(%d+)@?(%d*)$')
  if not arrival then
    return 0, false
  end
  written = tonumber(written) or now
  -- The clock was set back since then, or another server with a slower one took over. How much time has passed is unknown: none
  -- is credited, and from now on this clock counts. Left as it is, the client would be refused until the clock gets there again.
  local is_from_future = written > now
  local ahead = arrival - (is_from_future and written or now)
  -- Nor is more than a burst left as it is: the burst was greater when it was written.
  return math.max(0, math.min(ahead, burst)), is_from_future or ahead > burst
end

for k = 1, #KEYS do
  local least, most = tonumber(ARGV[2 * k + 1]), tonumber(ARGV[2 * k + 2])
  local ahead, is_corrected = ahead_of(redis.call('GET', KEYS[k]))
  local got = math.min(most, math.floor((burst - ahead) / each))
  if got < least then
    got = 0
  end
  ahead = ahead + got * each
  if got > 0 or is_corrected then
    local value = string.format('%.0f@%.0f', now + ahead, now)
    redis.call('SET', KEYS[k], value, 'PX', math.max(1, math.ceil(ahead / 1000)))
  end
  reply[2 * k - 1] = got
  reply[2 * k] = math.ceil(ahead)
end
return reply
