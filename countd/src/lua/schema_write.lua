-- Appends names to a schema if it has the expected length.
--
-- KEYS: the schema, its index by name. ARGV: the expected length, the names. Reply: 1, or 0 if the schema has another length.
--
-- requires: HGET {schema} len
-- requires: HSET {schema} len 1
-- requires: HGET {schema_by_name} len
-- requires: HSET {schema_by_name} name 0
local from = tonumber(ARGV[1])
local len = tonumber(redis.call('HGET', KEYS[1], 'len') or 0)
if len ~= from then
  return 0
end
-- Raises WRONGTYPE before the first write.
redis.call('HGET', KEYS[2], 'len')
require_permission('HSET', KEYS[1], 'len', 1)
require_permission('HSET', KEYS[2], 'name', 0)
for i = 2, #ARGV do
  local idx = from + i - 2
  redis.call('HSET', KEYS[1], idx, ARGV[i])
  redis.call('HSET', KEYS[2], ARGV[i], idx)
end
-- The original length is the minimum length of objects.
if from == 0 then
  redis.call('HSET', KEYS[1], 'first', #ARGV - 1)
end
redis.call('HSET', KEYS[1], 'len', from + #ARGV - 1)
return 1
