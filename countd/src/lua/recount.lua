-- Counts some chunks of facts of a bitmap that has too many for one step (sources.lua).
--
-- The recount is a Hash: `sum` is the number of facts in the chunks below `next`, in every step. Changes of these facts change it
-- (facts_bitmap.lua). It expires after the last call, and any process can continue it.
--
-- KEYS: the index of chunks, the recount. ARGV: prefix and suffix of a chunk's key. Reply: 1 if scripts can count the facts now, or 0.
--
-- requires: ZCARD {chunks}
-- requires: ZRANGEBYSCORE {chunks} 0 0
-- requires: BITCOUNT {bits}
-- requires: HMGET {recount} f
-- requires: HSET {recount} f 1
-- requires: EXPIRE {recount} 1
-- requires: DEL {recount}
local CHUNKS_PER_CALL, LIFETIME_SECONDS = 512, 60
local index, recount = KEYS[1], KEYS[2]
if redis.call('ZCARD', index) <= MAX_CHUNKS then
  return 1
end
local found, is_damaged = redis.pcall('HMGET', recount, 'next', 'sum'), false
if found.err then
  if not found.err:find('^WRONGTYPE') then
    error(found)
  end
  found, is_damaged = {}, true
end
local from, sum = tonumber(found[1] or ''), tonumber(found[2] or '')
if not from or not sum then
  from, sum = 0, 0
elseif from >= NEXT_OF_COMPLETE then
  return 1
end
local chunks = redis.call('ZRANGEBYSCORE', index, string.format('%.0f', from), '+inf', 'LIMIT', 0, CHUNKS_PER_CALL)
for _, chunk in ipairs(chunks) do
  sum = sum + redis.call('BITCOUNT', ARGV[1] .. chunk .. ARGV[2])
end
local is_complete = #chunks < CHUNKS_PER_CALL
local following = is_complete and NEXT_OF_COMPLETE or tonumber(chunks[#chunks]) + 1
require_permission('HSET', recount, 'next', following, 'sum', 0)
require_permission('EXPIRE', recount, LIFETIME_SECONDS)
require_permission('DEL', recount)
if is_damaged then
  redis.call('DEL', recount)
end
redis.call('HSET', recount, 'next', string.format('%.0f', following), 'sum', string.format('%.0f', sum))
redis.call('EXPIRE', recount, LIFETIME_SECONDS)
return is_complete and 1 or 0
