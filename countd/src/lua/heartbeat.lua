#!lua
-- Records a heartbeat of a consumer.
--
-- KEYS: the consumers (a sorted set), scored by when they expire. ARGV: the consumer's name, its time to live in milliseconds.
-- Reply: the live consumers.
--
-- A name ends in the consumer's time to live: `{pid}-{random}/{milliseconds}`. A score further ahead than that was written before the
-- clock was set back, or by a server whose clock is ahead. It is corrected, since a dead consumer would otherwise keep its partitions
-- until the clock reaches the score.
--
-- requires: TIME
-- requires: ZREMRANGEBYSCORE {consumers} -inf 0
-- requires: ZRANGE {consumers} 0 -1
-- requires: ZADD {consumers} 0 m
local name, lifetime = ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local members = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #members, 2 do
  local latest = now + (tonumber(members[i]:match('/(%d+)$')) or lifetime)
  if tonumber(members[i + 1]) > latest then
    redis.call('ZADD', KEYS[1], latest, members[i])
  end
end
redis.call('ZADD', KEYS[1], now + lifetime, name)
return redis.call('ZRANGE', KEYS[1], 0, -1)
