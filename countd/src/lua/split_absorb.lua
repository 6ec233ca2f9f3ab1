-- Ends the merge of a split entity: adds the counters of the shards to those of the base, and its facts get the key that they have while
-- the entity is whole. What authors were credited with at the shards, they are credited with at the base. Does nothing the second time.
--
-- KEYS: the state of the base, its counters, the log, the table and the Hash of authors, and of each metric the three keys of facts
-- (split_base.lua). ARGV: row, length and minimum length of the counters, the ID of the entity, the journal entry without its changes
-- ('' without one), for how long Strings stay (seconds), the author whom the shards have (''  without one), the amounts
-- that the author was credited with at the shards, separated by spaces, and of each metric idx, name and sum of the counters. Reply: 1; 0
-- if the shards were absorbed before; or the error SPLITAUTHOR if the base has another author.
--
-- requires: HMGET {split} f
-- requires: HSET {split} f v
-- requires: HKEYS {split}
-- requires: HDEL {split} f
-- requires: XADD {log} 0-* f v
-- requires: TYPE {ids}
-- requires: EXISTS {ids}
-- requires: DEL {ids}
-- requires: RENAME {ids} {ids}
-- requires: SET {ids} v EX 1
local state, counters, log, authors, hash = unpack(KEYS, 1, 5)
local row, len, min_len, eid, entry, seconds, uid, amounts = unpack(ARGV, 1, 8)
local merging, absorbed = unpack(redis.call('HMGET', state, 'merging', 'absorbed'))
if absorbed then
  return 0
end
if not merging then
  return redis.error_reply('SPLITSTATE the base does not know of the merge')
end
local mismatch = counter_mismatch(counters, row, tonumber(min_len))
if mismatch then
  return counter_error(mismatch)
end
local author = author_get(authors, hash, eid)
local credited = {}
for amount in amounts:gmatch('%d+') do
  credited[#credited + 1] = tonumber(amount)
end
if #credited > 0 and (not author or author.uid ~= uid) then
  return redis.error_reply('SPLITAUTHOR the base has another author than the shards')
end
counter_require_permission(counters, row)
author_require_permission(authors, hash)
require_permission('HSET', state, 'absorbed', 1)
require_permission('HDEL', state, 'leaving:')
local deltas, changes = {}, {}
for m = 0, (#KEYS - 5) / 3 - 1 do
  local idx, name, sum = unpack(ARGV, 9 + 3 * m, 11 + 3 * m)
  if tonumber(sum) > 0 then
    deltas[#deltas + 1] = idx
    deltas[#deltas + 1] = sum
    changes[#changes + 1] = '["' .. name .. '",' .. sum .. ']'
  end
  local whole, frozen, former = unpack(KEYS, 6 + 3 * m, 8 + 3 * m)
  for _, key in ipairs({ whole, frozen, former }) do
    require_permission('DEL', key)
    require_permission('RENAME', key, key)
    require_permission('SET', key, 'merged', 'EX', seconds)
  end
  -- Raises WRONGTYPE before the first write.
  ids_contain(frozen, '0')
  if redis.call('TYPE', whole).ok ~= 'string' then
    return redis.error_reply('SPLITSTATE the facts of the base are not frozen')
  end
end
if entry ~= '' and #changes > 0 then
  -- The last command that can fail comes first, since Redis does not roll a script back.
  redis.call('XADD', log, '0-*', 'j', entry .. table.concat(changes, ',') .. ']}')
end
if #deltas > 0 then
  counter_add(counters, row, len, unpack(deltas))
end
if #credited > 0 then
  for i, amount in ipairs(credited) do
    author.credited[i] = (author.credited[i] or 0) + amount
  end
  author_set(authors, hash, eid, author, author)
end
for k = 6, #KEYS, 3 do
  local whole, frozen, former = unpack(KEYS, k, k + 2)
  redis.call('DEL', whole, former)
  if redis.call('EXISTS', frozen) == 1 then
    redis.call('RENAME', frozen, whole)
  end
  redis.call('SET', frozen, 'merged', 'EX', seconds)
end
redis.call('HSET', state, 'absorbed', 1)
-- Users who were leaving the base (split_leave.lua): the state is kept for a while, and must not name them.
for _, field in ipairs(redis.call('HKEYS', state)) do
  if field:find('^leaving:') then
    redis.call('HDEL', state, field)
  end
end
return 1
