-- A fact in the Set of a day, or in the compacted facts of older days.
--
-- KEYS: the index of days that have a Set (a sorted set), the compacted ids, the compacted non-numeric ids (a Set), today's Set, the
-- partition's index of days (a sorted set). ARGV: the user, whether the id is numeric, today, prefix and suffix of the key of a day's
-- Set, the name of the entity's facts in KEYS[5].
--
-- A lookup reads every day in the index, regardless of today's date, so clocks that differ cannot cause a duplicate fact.
local FACT_KEYS, FACT_ARGS = 5, 6
local uid, is_numeric, today, prefix, suffix, name = unpack(ARGV, 1, FACT_ARGS)
local found_day

-- Whether the entity has facts.
-- requires: EXISTS {days}
-- requires: EXISTS {compacted}
-- requires: EXISTS {ids}
local function facts_exist()
  return redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3]) > 0
end

-- requires: SCARD {day}
-- requires: ZCARD {partition_days}
-- requires: ZREVRANGE {days} 0 -1
-- requires: SISMEMBER {day} m
-- requires: SISMEMBER {compacted} m
local function fact_exists()
  -- Raises WRONGTYPE before the first write.
  redis.call('SCARD', KEYS[4])
  redis.call('ZCARD', KEYS[5])
  for _, day in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, -1)) do
    if redis.call('SISMEMBER', prefix .. day .. suffix, uid) == 1 then
      found_day = day
      return true
    end
  end
  if is_numeric == '1' then
    return ids_contain(KEYS[2], uid)
  end
  return redis.call('SISMEMBER', KEYS[3], uid) == 1
end

-- Called after fact_exists, which sets found_day.
local function fact_require_permission(adds)
  if adds then
    require_permission('SADD', KEYS[4], uid)
    require_permission('ZADD', KEYS[1], today, today)
    require_permission('ZADD', KEYS[5], today, name)
  elseif found_day then
    local set = prefix .. found_day .. suffix
    require_permission('SREM', set, uid)
    require_permission('EXISTS', set)
    require_permission('ZREM', KEYS[1], found_day)
    require_permission('ZREM', KEYS[5], name)
  elseif is_numeric == '1' then
    ids_require_permission('remove', KEYS[2])
  else
    require_permission('SREM', KEYS[3], uid)
  end
end

-- requires: SADD {day} m
-- requires: SCARD {day}
-- requires: ZADD {days} 0 0
-- requires: ZADD {partition_days} 0 0
local function fact_add()
  redis.call('SADD', KEYS[4], uid)
  if redis.call('SCARD', KEYS[4]) == 1 then
    redis.call('ZADD', KEYS[1], today, today)
    redis.call('ZADD', KEYS[5], today, today .. ':' .. name)
  end
end

-- requires: SREM {day} m
-- requires: EXISTS {day}
-- requires: ZREM {days} 0
-- requires: ZREM {partition_days} 0
-- requires: SREM {compacted} m
local function fact_remove()
  if found_day then
    local set = prefix .. found_day .. suffix
    redis.call('SREM', set, uid)
    if redis.call('EXISTS', set) == 0 then
      redis.call('ZREM', KEYS[1], found_day)
      redis.call('ZREM', KEYS[5], found_day .. ':' .. name)
    end
  elseif is_numeric == '1' then
    ids_remove(KEYS[2], uid)
  else
    redis.call('SREM', KEYS[3], uid)
  end
end
