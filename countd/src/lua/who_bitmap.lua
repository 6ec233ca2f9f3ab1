-- KEYS: the chunks that there are. ARGV: how many users are wanted, the first chunk, the key of a chunk up to its number and behind
-- it. Replies number and bits of chunks, the highest first, as many as hold more users than are wanted without the first chunk, of
-- which a part may have been on the page before.
local limit, users, reply = tonumber(ARGV[1]), 0, {}
for i, chunk in ipairs(redis.call('ZREVRANGEBYSCORE', KEYS[1], ARGV[2], '-inf', 'LIMIT', 0, limit + 2)) do
  local key = ARGV[3] .. chunk .. ARGV[4]
  reply[#reply + 1] = chunk
  reply[#reply + 1] = redis.call('GET', key) or ''
  if i > 1 then
    users = users + redis.call('BITCOUNT', key)
  end
  if users > limit then
    break
  end
end
return reply
