-- The first step by which a user without facts leaves the base of a split entity: from then on the base refuses their actions, so it gets
-- no event of the user. It repeats without effect.
--
-- KEYS: the state of the base, and of each metric the facts and the former users (split_base.lua). ARGV: the user. Reply: 0 if they are no
-- former user, 1 if they leave, 2 if they cannot now: they have facts, or the entity is being split or merged.
--
-- requires: HMGET {split} f
-- requires: HSET {split} f v
local state, uid = KEYS[1], ARGV[1]
local field = 'leaving:' .. uid
local open, merging, leaving = unpack(redis.call('HMGET', state, 'open', 'merging', field))
if merging then
  return 2
end
local has_facts, is_former = false, false
for k = 2, #KEYS, 2 do
  has_facts = has_facts or ids_contain(KEYS[k], uid)
  is_former = is_former or ids_contain(KEYS[k + 1], uid)
end
if not is_former and not leaving then
  return 0
end
if has_facts or not open then
  return 2
end
redis.call('HSET', state, field, 1)
return 1
