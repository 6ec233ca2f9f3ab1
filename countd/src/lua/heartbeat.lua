#!lua
-- KEYS: the consumers, each with the time until which it counts as alive. ARGV: one of them, for how many milliseconds it lives.
-- Replies those that are alive.
--
-- A name ends in the consumer's own lifetime: `{pid}-{random}/{milliseconds}`. A score that is further ahead than that was written
-- before the clock was set back, or by a server with a faster one. It is corrected: left as it is, a dead consumer would keep
-- its partitions until the clock gets there again.
local name, lifetime = ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local found = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #found, 2 do
  local latest = now + (tonumber(found[i]:match('/(%d+)$')) or lifetime)
  if tonumber(found[i + 1]) > latest then
    redis.call('ZADD', KEYS[1], latest, found[i])
  end
end
redis.call('ZADD', KEYS[1], now + lifetime, name)
return redis.call('ZRANGE', KEYS[1], 0, -1)
