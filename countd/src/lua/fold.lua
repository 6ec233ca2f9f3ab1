-- Moves some users from the Set of a day to where old ones are kept: all of them, or nobody.
--
-- KEYS: as facts_daily.lua, KEYS[4] being the Set of the day. ARGV: the day, the fact's name in KEYS[5], how many users. Replies how
-- many it moved, and whether the Set is gone.

-- An unsigned 64-bit integer as Redis writes it.
local function is_id(text)
  if not (text:find('^[1-9]%d*$') or text == '0') then
    return false
  end
  return #text < 20 or (#text == 20 and text <= '18446744073709551615')
end

-- Of the wrong type, they fail here and not after the first write.
redis.call('ZCARD', KEYS[1])
ids_have(KEYS[2], 0)
redis.call('SCARD', KEYS[3])
redis.call('ZCARD', KEYS[5])
need('SPOP', KEYS[4], 1)
ids_need('add', KEYS[2])
need('SADD', KEYS[3], '')
need('EXISTS', KEYS[4])
need('ZREM', KEYS[1], ARGV[1])
need('ZREM', KEYS[5], ARGV[2])
local ids, others = {}, {}
local moved = redis.call('SPOP', KEYS[4], ARGV[3])
for _, user in ipairs(moved) do
  local to = is_id(user) and ids or others
  to[#to + 1] = user
end
if #ids > 0 then
  ids_add(KEYS[2], ids)
end
if #others > 0 then
  redis.call('SADD', KEYS[3], unpack(others))
end
local is_gone = redis.call('EXISTS', KEYS[4]) == 0
if is_gone then
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('ZREM', KEYS[5], ARGV[1] .. ':' .. ARGV[2])
end
return { #moved, is_gone and 1 or 0 }
