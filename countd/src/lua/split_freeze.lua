-- Freezes the facts of a metric at the base of an entity: moves them to another key, and leaves a String.
--
-- KEYS: the facts while the entity is whole, the facts while it is split, and the state of the base. ARGV: the metric. Reply: 1, or 0 if
-- they are frozen.
--
-- requires: HEXISTS {split} f
-- requires: HSET {split} f v
-- requires: EXISTS {ids}
-- requires: RENAME {ids} {ids}
-- requires: SET {ids} v
local whole, frozen, state = unpack(KEYS)
local field = 'frozen:' .. ARGV[1]
if redis.call('HEXISTS', state, field) == 1 then
  return 0
end
require_permission('RENAME', whole, frozen)
require_permission('SET', whole, 'split')
require_permission('HSET', state, field, 1)
-- Raises WRONGTYPE before the first write.
ids_contain(whole, '0')
if redis.call('EXISTS', whole) == 1 then
  redis.call('RENAME', whole, frozen)
end
redis.call('SET', whole, 'split')
redis.call('HSET', state, field, 1)
return 1
