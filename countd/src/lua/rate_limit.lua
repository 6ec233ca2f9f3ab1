#!lua
-- Rate limits by GCRA.
--
-- KEYS: for each client its theoretical arrival time and when that was written, both in microseconds: `{arrival}@{written}`.
-- ARGV: microseconds per item, microseconds of the burst, then for each client the minimum (below it nothing is granted) and the
-- maximum number of items. Reply: for each client the number of granted items and how many microseconds it is ahead of the rate.
--
-- requires: TIME
-- requires: GET {limit}
-- requires: SET {limit} 1 PX 1
local each, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local reply = {}

-- How far a client is ahead of the rate, and whether the stored value has to be corrected even if nothing is granted.
local function ahead_of(stored)
  local arrival, written = (stored or ''):match('^(%d+)@?(%d*)$')
  if not arrival then
    return 0, false
  end
  written = tonumber(written) or now
  -- A time of writing in the future means that the clock was set back, or that a server with a slower clock took over. The elapsed
  -- time is unknown then. None is credited, and the current clock counts from now on; otherwise the client would be limited until
  -- the clock reaches the stored time.
  local is_from_future = written > now
  local ahead = arrival - (is_from_future and written or now)
  -- A value beyond the burst was written with a greater burst, and is corrected too.
  return math.max(0, math.min(ahead, burst)), is_from_future or ahead > burst
end

for k = 1, #KEYS do
  local min, max = tonumber(ARGV[2 * k + 1]), tonumber(ARGV[2 * k + 2])
  local ahead, needs_correction = ahead_of(redis.call('GET', KEYS[k]))
  local granted = math.min(max, math.floor((burst - ahead) / each))
  if granted < min then
    granted = 0
  end
  ahead = ahead + granted * each
  if granted > 0 or needs_correction then
    local value = string.format('%.0f@%.0f', now + ahead, now)
    redis.call('SET', KEYS[k], value, 'PX', math.max(1, math.ceil(ahead / 1000)))
  end
  reply[2 * k - 1] = granted
  reply[2 * k] = math.ceil(ahead)
end
return reply
