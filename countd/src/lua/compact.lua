-- Moves some users from a day's Set to the compacted facts, atomically.
--
-- KEYS: as in facts_daily.lua; KEYS[4] is the Set of the day to compact. ARGV: the day, the name of the entity's facts in KEYS[5], the
-- number of users to move. Reply: how many users were moved, and whether the Set is now empty.
--
-- requires: ZCARD {days}
-- requires: SCARD {compacted}
-- requires: ZCARD {partition_days}
-- requires: SPOP {day} 1
-- requires: SADD {compacted} m
-- requires: EXISTS {day}
-- requires: ZREM {days} 0
-- requires: ZREM {partition_days} 0

-- Whether a text is an unsigned 64-bit integer as Redis writes it.
local function is_id(text)
  if not (text:find('^[1-9]%d*$') or text == '0') then
    return false
  end
  return #text < 20 or (#text == 20 and text <= '18446744073709551615')
end

-- Raises WRONGTYPE before the first write.
redis.call('ZCARD', KEYS[1])
ids_contain(KEYS[2], 0)
redis.call('SCARD', KEYS[3])
redis.call('ZCARD', KEYS[5])
require_permission('SPOP', KEYS[4], 1)
ids_require_permission('add', KEYS[2])
require_permission('SADD', KEYS[3], '')
require_permission('EXISTS', KEYS[4])
require_permission('ZREM', KEYS[1], ARGV[1])
require_permission('ZREM', KEYS[5], ARGV[2])
local ids, others = {}, {}
local moved = redis.call('SPOP', KEYS[4], ARGV[3])
for _, user in ipairs(moved) do
  local target = is_id(user) and ids or others
  target[#target + 1] = user
end
if #ids > 0 then
  ids_add(KEYS[2], ids)
end
if #others > 0 then
  redis.call('SADD', KEYS[3], unpack(others))
end
local is_empty = redis.call('EXISTS', KEYS[4]) == 0
if is_empty then
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('ZREM', KEYS[5], ARGV[1] .. ':' .. ARGV[2])
end
return { #moved, is_empty and 1 or 0 }
