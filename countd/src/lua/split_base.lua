-- A fact at the base of a split entity, as a member of an id set, or of a Set in its place. The rest of the script follows.
--
-- KEYS: the facts while the entity is whole, the facts while it is split, users who have had a fact since then and took it back, and the
-- state of the base. ARGV: the user. The first key is a String while the entity is split.
--
-- requires: TYPE {ids}
local FACT_KEYS, FACT_ARGS = 4, 1
local IS_FROZEN = redis.call('TYPE', KEYS[1]).ok == 'string'
local FACTS, FORMER = KEYS[IS_FROZEN and 2 or 1], KEYS[3]

-- The error SPLITMERGING if facts of the shards are being copied to the base or the user leaves it (split_leave.lua), SPLITSHARD if the
-- home of the user is a shard.
-- requires: HMGET {split} f
local function fact_elsewhere()
  local merging, absorbed, open, leaving = unpack(redis.call('HMGET', KEYS[4], 'merging', 'absorbed', 'open', 'leaving:' .. ARGV[1]))
  if merging and not absorbed then
    return redis.error_reply('SPLITMERGING the entity is being merged')
  end
  if IS_FROZEN and leaving then
    return redis.error_reply('SPLITMERGING the user is being erased')
  end
  if IS_FROZEN and open and not ids_contain(FACTS, ARGV[1]) and not ids_contain(FORMER, ARGV[1]) then
    return redis.error_reply('SPLITSHARD the home of the user is a shard')
  end
end

-- requires: EXISTS {ids}
local function facts_exist()
  return redis.call('EXISTS', FACTS) == 1
end

local function fact_exists()
  return ids_contain(FACTS, ARGV[1])
end

local function fact_require_permission(adds)
  ids_require_permission(adds and 'add' or 'remove', FACTS)
  if IS_FROZEN then
    -- Raises WRONGTYPE before the first write.
    ids_contain(FORMER, ARGV[1])
    ids_require_permission('add', FORMER)
  end
end

local function fact_add()
  ids_add(FACTS, { ARGV[1] })
end

local function fact_remove()
  ids_remove(FACTS, ARGV[1])
  -- Users with facts are never removed from it, so that a scan of the facts and then of these users finds all whose home is the base.
  if IS_FROZEN then
    ids_add(FORMER, { ARGV[1] })
  end
end
