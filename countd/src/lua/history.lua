-- Reads the counts of an entity by day. Archiving moves counts between the keys, so they are read in one step.
--
-- KEYS: the Hash of days, and that of archived days. ARGV: the dates, or nothing for all. Reply: the count of each date, or the fields and
-- values of both Hashes.
--
-- requires: HGETALL {day_counts}
-- requires: HMGET {day_counts} f
if #ARGV == 0 then
  return { redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[2]) }
end
local counts = {}
for _, key in ipairs(KEYS) do
  for i, value in ipairs(redis.call('HMGET', key, unpack(ARGV))) do
    counts[i] = (counts[i] or 0) + (tonumber(value or 0) or 0)
  end
end
return counts
