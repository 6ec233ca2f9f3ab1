-- Records a field of the layout: the storage of a type, or that facts of a metric are kept for users. Starts a new epoch, which tells
-- running processes to read the layout again. The schema that has the columns of a type follows its storage, and stays.
--
-- KEYS: the layout. ARGV: the field, its value, and the field of the epoch. Reply: the epoch.
--
-- requires: HGET {layout} f
-- requires: HSET {layout} f v
require_permission('HSET', KEYS[1], ARGV[1], ARGV[2])
require_permission('HSET', KEYS[1], ARGV[3], 1)
local columns = ''
if ARGV[1]:find('^storage:') then
  columns = (redis.call('HGET', KEYS[1], ARGV[1]) or ''):match('/.*$') or ''
end
local since = start_epoch(KEYS[1], ARGV[3])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. columns)
return since
