-- Fences the facts of metrics at a shard, when the entity is merged: moves them to other keys, and leaves Strings for processes that do
-- not know of the merge.
--
-- KEYS: of each metric the facts, and the other key. ARGV: for how long the Strings stay, in seconds. Reply: 1.
--
-- requires: TYPE {ids}
-- requires: RENAME {ids} {ids}
-- requires: SET {ids} v EX 1
for k = 1, #KEYS do
  require_permission('RENAME', KEYS[k], KEYS[k])
  require_permission('SET', KEYS[k], 'merged', 'EX', ARGV[1])
end
for k = 1, #KEYS, 2 do
  local kind = redis.call('TYPE', KEYS[k]).ok
  if kind ~= 'string' and kind ~= 'none' then
    redis.call('RENAME', KEYS[k], KEYS[k + 1])
  end
  redis.call('SET', KEYS[k], 'merged', 'EX', ARGV[1])
end
return 1
