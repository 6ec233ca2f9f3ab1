-- Keeps the entries of logs that are not copied to the topic yet, for a rebuild, and reads how far each partition is counted: at this moment
-- a counter includes the entries and the records before the positions.
--
-- KEYS: the positions, the holds. ARGV: the time to live of the holds in seconds, then the partitions. Reply: of each partition the first
-- offset that was not copied, its position, its position in the topic, the histories of its copies, and the offset of its last erasure.
--
-- requires: HMGET {position} 0
-- requires: HSET {hold} 0 1
-- requires: EXPIRE {hold} 1
require_permission('HSET', KEYS[2], '0', 1)
require_permission('EXPIRE', KEYS[2], 1)
local cuts = {}
for i = 2, #ARGV do
  local partition = ARGV[i]
  local fields = redis.call('HMGET', KEYS[1], 'published:' .. partition, partition, 'topic:' .. partition, 'copies:' .. partition,
    'erased:' .. partition)
  local published = fields[1] or '1'
  redis.call('HSET', KEYS[2], partition, published)
  cuts[i - 1] = { published, fields[2] or '1', fields[3] or '0', fields[4] or '', fields[5] or '0' }
end
redis.call('EXPIRE', KEYS[2], ARGV[1])
return cuts
