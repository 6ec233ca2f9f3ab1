-- Adds entries to the shadows of counters, and advances the progress of the rebuild past them.
--
-- A shadow has two fields for each counter: the sum of what was added, and the sum of what was subtracted.
--
-- A server that has lost its last writes may have other entries than those that were read, so nothing is added then.
--
-- KEYS: the progress, then the shadows. ARGV: the history of the server, the number of fields of the progress, and of each its name, its expected and its new value
-- ('' if it stays); then of each shadow the index of its key, the row, the length, 1 if it is deleted first, the number of arguments that follow,
-- and these: idx and increment of each field. Reply: 1, or 0 if the progress or the history is another one.
--
-- requires: HGET {replay_offsets} 0
-- requires: HSET {replay_offsets} 0 1
local at = 1
local function next_argument()
  at = at + 1
  return ARGV[at - 1]
end

if server_history() ~= next_argument() then
  return 0
end
local advanced = {}
for _ = 1, tonumber(next_argument()) do
  local partition, expected, next_offset = next_argument(), next_argument(), next_argument()
  if (redis.call('HGET', KEYS[1], partition) or '') ~= expected then
    return 0
  end
  if next_offset ~= '' then
    advanced[#advanced + 1] = partition
    advanced[#advanced + 1] = next_offset
  end
end
local shadows = {}
while at <= #ARGV do
  local shadow = { key = KEYS[1 + next_argument()], row = next_argument(), len = next_argument(), is_new = next_argument() == '1', deltas = {} }
  for i = 1, tonumber(next_argument()) do
    shadow.deltas[i] = next_argument()
  end
  if counter_mismatch(shadow.key, shadow.row, 0) then
    return counter_error('type')
  end
  counter_require_permission(shadow.key, shadow.row)
  counter_delete_require_permission(shadow.key, shadow.row)
  shadows[#shadows + 1] = shadow
end
require_permission('HSET', KEYS[1], '0', 1)
for _, shadow in ipairs(shadows) do
  if shadow.is_new then
    counter_delete(shadow.key, shadow.row)
  end
  if #shadow.deltas > 0 then
    counter_add(shadow.key, shadow.row, shadow.len, unpack(shadow.deltas))
  end
end
if #advanced > 0 then
  redis.call('HSET', KEYS[1], unpack(advanced))
end
return 1
