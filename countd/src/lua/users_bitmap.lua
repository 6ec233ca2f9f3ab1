-- Chunks of bits for a page of users, the highest chunk first.
--
-- KEYS: the index of chunks. ARGV: the page size, the first chunk, prefix and suffix of a chunk's key. Reply: number and bits of
-- chunks. The list ends when the chunks after the first hold more users than the page size. Users of the first chunk may have been
-- on the previous page.
--
-- requires: ZREVRANGEBYSCORE {chunks} 0 0
-- requires: GET {bits}
-- requires: BITCOUNT {bits}
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
