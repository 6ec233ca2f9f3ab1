-- Moves members of a key with numeric ids to the key that data with the module has for them.
--
-- KEYS: the key, and the other one. ARGV: what the key is: `newest` (a sorted set of a timeline, whose times go to a table), `older` (a Set
-- of a timeline, whose members go to an id set), `totals` (a Hash of totals, which go to a table) or `authors` (a Hash of authors, which
-- go to a table); the cursor of the scan, and the number of members that a step looks at. Reply: the next cursor ('0' at the end), the
-- number of moved members, and 1 if one of the keys holds another type, or a value that countd does not write.
--
-- requires: TYPE {newest_set}
-- requires: TYPE {newest_table}
-- requires: TYPE {older_set}
-- requires: TYPE {older_ids}
-- requires: TYPE {day_counts}
-- requires: TYPE {totals}
-- requires: TYPE {authors}
-- requires: TYPE {tables}
-- requires: ZSCAN {newest_set} 0 COUNT 1
-- requires: SSCAN {older_set} 0 COUNT 1
-- requires: HSCAN {day_counts} 0 COUNT 1
-- requires: HSCAN {authors} 0 COUNT 1
-- requires: CTAB.SET {newest_table} 0 LEN 1 0 0
-- requires: ZREM {newest_set} m
-- requires: RBM.ADD {older_ids} 0
-- requires: SREM {older_set} m
local kind, cursor, count = unpack(ARGV)
local key, other = unpack(KEYS)
-- The form of each kind, the number of values of a member, and the form of the other key.
local FORMS = {
  newest = { 'zset', 2, 'CountTab5' },
  older = { 'set', 1, 'RoaringBM' },
  totals = { 'hash', 2, 'CountTab5' },
  authors = { 'hash', 2, 'CountTab5' },
}
local form, step, other_form = unpack(FORMS[kind])
local found, found_other = redis.call('TYPE', key).ok, redis.call('TYPE', other).ok
if found == 'none' then
  return { '0', 0, 0 }
elseif found ~= form or found_other ~= 'none' and found_other ~= other_form then
  return { '0', 0, 1 }
end
if kind == 'newest' then
  require_permission('CTAB.SET', other, 0, 'LEN', 1, 0, 0)
  require_permission('ZREM', key, 'm')
elseif kind == 'older' then
  require_permission('RBM.ADD', other, 0)
  require_permission('SREM', key, 'm')
elseif kind == 'totals' then
  totals_require_permission(other, 0)
else
  author_require_permission(other, key)
end

local MOVES = {
  newest = function(id, time)
    redis.call('CTAB.SET', other, id, 'LEN', 1, 0, time)
    redis.call('ZREM', key, id)
  end,
  older = function(id)
    redis.call('RBM.ADD', other, id)
    redis.call('SREM', key, id)
  end,
  totals = function(id)
    total_adopt(other, id, id)
  end,
  authors = function(id, value)
    local author = author_of_field(value)
    author_set(other, key, id, author, author)
  end,
}
-- Whether a value can be moved, and whether it is one that countd writes.
local function is_movable(value)
  if kind == 'older' then
    return true, true
  elseif kind == 'authors' then
    local uid = value:match('^(%S*) %d+/?%d*[ %d]*$')
    return uid == '' or uid ~= nil and is_number(uid), uid ~= nil
  end
  -- A counter has 40 bits.
  local is_valid = value:find('^%d+$') ~= nil and tonumber(value) < 2 ^ 40
  return is_valid, is_valid
end

local page
if form == 'zset' then
  page = redis.call('ZSCAN', key, cursor, 'COUNT', count)
elseif form == 'set' then
  page = redis.call('SSCAN', key, cursor, 'COUNT', count)
else
  page = redis.call('HSCAN', key, cursor, 'COUNT', count)
end
local moved, damaged = 0, 0
local seen = {}
for i = 1, #page[2], step do
  local id, value = page[2][i], page[2][i + 1]
  if is_number(id) and not seen[id] then
    seen[id] = true
    local moves, is_valid = is_movable(value)
    if moves then
      MOVES[kind](id, value)
      moved = moved + 1
    elseif not is_valid then
      damaged = 1
    end
  end
end
return { page[1], moved, damaged }
