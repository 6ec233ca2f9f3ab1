-- Keeps the entries of logs that are not copied to the topic yet, for a rebuild, and reads how far each partition is counted: at this moment
-- a counter includes the entries and the records before the positions.
--
-- A baseline leaves a mark: a server that has lost its last writes does not have it, and other entries can have the offsets of the baseline.
--
-- KEYS: the positions, the holds. ARGV: the time to live of the holds in seconds, the mark ('' without one), then the partitions. Reply: of each partition the first
-- offset that was not copied, its position, its position in the topic, the histories of its copies, and the offset of its last erasure.
--
-- requires: HMGET {position} 0
-- requires: HSET {hold} 0 1
-- requires: EXPIRE {hold} 1
-- requires: HGET {position} 0
-- requires: HSET {position} 0 1
local MAX_MARKS = 100
require_permission('HSET', KEYS[2], '0', 1)
require_permission('EXPIRE', KEYS[2], 1)
require_permission('HSET', KEYS[1], 'baselines', '')
if ARGV[2] ~= '' then
  local marks = {}
  for mark in (redis.call('HGET', KEYS[1], 'baselines') or ''):gmatch('[^,]+') do
    marks[#marks + 1] = mark
  end
  marks[#marks + 1] = ARGV[2]
  redis.call('HSET', KEYS[1], 'baselines', table.concat(marks, ',', math.max(1, #marks - MAX_MARKS + 1)))
end
local cuts = {}
for i = 3, #ARGV do
  local partition = ARGV[i]
  local fields = redis.call('HMGET', KEYS[1], 'published:' .. partition, partition, 'topic:' .. partition, 'copies:' .. partition,
    'erased:' .. partition)
  local published = fields[1] or '1'
  redis.call('HSET', KEYS[2], partition, published)
  cuts[i - 2] = { published, fields[2] or '1', fields[3] or '0', fields[4] or '', fields[5] or '0' }
end
redis.call('EXPIRE', KEYS[2], ARGV[1])
return cuts
