-- A fact in the Set of its day, or where old days are folded to. KEYS: the days that have a Set (a sorted set), folded ids, folded
-- users whose ids are no numbers (a Set), the Set of today, the days of all entities of the partition (a sorted set). ARGV: the
-- user, whether his id is a number, today, the key of a day's Set up to the day and behind it, the fact's name in KEYS[5].
--
-- All days that there are are looked at, whatever today is: clocks that differ do harm to nobody.
local FACT_KEYS, FACT_ARGS = 5, 6
local uid, is_number, today, before, after, name = unpack(ARGV, 1, FACT_ARGS)
local found_in

local function fact_is()
  -- Of the wrong type, they fail here and not after the first write.
  redis.call('SCARD', KEYS[4])
  redis.call('ZCARD', KEYS[5])
  for _, day in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, -1)) do
    if redis.call('SISMEMBER', before .. day .. after, uid) == 1 then
      found_in = day
      return true
    end
  end
  if is_number == '1' then
    return ids_have(KEYS[2], uid)
  end
  return redis.call('SISMEMBER', KEYS[3], uid) == 1
end

-- For what changes now: fact_is has found where it is.
local function fact_need(adds)
  if adds then
    need('SADD', KEYS[4], uid)
    need('ZADD', KEYS[1], today, today)
    need('ZADD', KEYS[5], today, name)
  elseif found_in then
    local set = before .. found_in .. after
    need('SREM', set, uid)
    need('EXISTS', set)
    need('ZREM', KEYS[1], found_in)
    need('ZREM', KEYS[5], name)
  elseif is_number == '1' then
    ids_need('remove', KEYS[2])
  else
    need('SREM', KEYS[3], uid)
  end
end

local function fact_add()
  redis.call('SADD', KEYS[4], uid)
  if redis.call('SCARD', KEYS[4]) == 1 then
    redis.call('ZADD', KEYS[1], today, today)
    redis.call('ZADD', KEYS[5], today, today .. ':' .. name)
  end
end

local function fact_remove()
  if found_in then
    local set = before .. found_in .. after
    redis.call('SREM', set, uid)
    if redis.call('EXISTS', set) == 0 then
      redis.call('ZREM', KEYS[1], found_in)
      redis.call('ZREM', KEYS[5], found_in .. ':' .. name)
    end
  elseif is_number == '1' then
    ids_remove(KEYS[2], uid)
  else
    redis.call('SREM', KEYS[3], uid)
  end
end
