-- The last step by which a user leaves the base of a split entity: nothing at the base names them any more, and their home is a shard. It
-- repeats without effect.
--
-- KEYS and ARGV: as in split_leave.lua. Reply: 1, or 0 if the user does not leave.
--
-- requires: HMGET {split} f
-- requires: HDEL {split} f
local state, uid = KEYS[1], ARGV[1]
local field = 'leaving:' .. uid
local merging, leaving = unpack(redis.call('HMGET', state, 'merging', field))
if merging or not leaving then
  return 0
end
for k = 2, #KEYS, 2 do
  -- Raises WRONGTYPE before the first write. The base has refused to add facts.
  if ids_contain(KEYS[k], uid) then
    return 0
  end
  ids_contain(KEYS[k + 1], uid)
  ids_require_permission('remove', KEYS[k + 1])
end
require_permission('HDEL', state, field)
for k = 3, #KEYS, 2 do
  ids_remove(KEYS[k], uid)
end
redis.call('HDEL', state, field)
return 1
