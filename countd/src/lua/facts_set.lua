-- A fact as a member of a Set. KEYS: the Set. ARGV: the user, prefix and suffix of the keys of the entity's Sets, their number (0 if KEYS[1]
-- is the only one).
local FACT_KEYS, FACT_ARGS = 1, 4

-- Whether the entity has facts.
-- requires: EXISTS {set}
local function facts_exist()
  for shard = 0, ARGV[4] - 1 do
    if redis.call('EXISTS', ARGV[2] .. shard .. ARGV[3]) == 1 then
      return true
    end
  end
  return redis.call('EXISTS', KEYS[1]) == 1
end

-- requires: SISMEMBER {set} m
local function fact_exists()
  return redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1
end

local function fact_require_permission(adds)
  require_permission(adds and 'SADD' or 'SREM', KEYS[1], ARGV[1])
end

-- requires: SADD {set} m
local function fact_add()
  redis.call('SADD', KEYS[1], ARGV[1])
end

-- requires: SREM {set} m
local function fact_remove()
  redis.call('SREM', KEYS[1], ARGV[1])
end
