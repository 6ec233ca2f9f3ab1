-- KEYS: the schema, its indexes by name. ARGV: how long the schema is, the names to add.
local from = tonumber(ARGV[1])
local len = tonumber(redis.call('HGET', KEYS[1], 'len') or 0)
if len ~= from then
  return 0
end
-- Of the wrong type, or not allowed, they fail here and not after the first write.
redis.call('HGET', KEYS[2], 'len')
need('HSET', KEYS[1], 'len', 1)
need('HSET', KEYS[2], 'name', 0)
for i = 2, #ARGV do
  local idx = from + i - 2
  redis.call('HSET', KEYS[1], idx, ARGV[i])
  redis.call('HSET', KEYS[2], ARGV[i], idx)
end
-- Objects were never shorter than it was at first.
if from == 0 then
  redis.call('HSET', KEYS[1], 'first', #ARGV - 1)
end
redis.call('HSET', KEYS[1], 'len', from + #ARGV - 1)
return 1
