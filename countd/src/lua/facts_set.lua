-- A fact as a member of a Set. KEYS: the Set. ARGV: the user.
local FACT_KEYS, FACT_ARGS = 1, 1

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
