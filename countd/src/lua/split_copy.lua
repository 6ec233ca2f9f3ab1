-- Adds facts of a shard to those of the base, while the entity is merged.
--
-- KEYS: the facts of the base while the entity is split, and the state of the base. ARGV: the users. Reply: 1, or 0 if the base has
-- absorbed the shards.
--
-- requires: HMGET {split} f
local state = redis.call('HMGET', KEYS[2], 'merging', 'absorbed')
if not state[1] or state[2] then
  return 0
end
ids_require_permission('add', KEYS[1])
ids_add(KEYS[1], ARGV)
return 1
