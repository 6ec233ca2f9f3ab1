-- A fact in a Set. KEYS: the Set. ARGV: the user.
local FACT_KEYS, FACT_ARGS = 1, 1

local function fact_is()
  return redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1
end

local function fact_need(adds)
  need(adds and 'SADD' or 'SREM', KEYS[1], ARGV[1])
end

local function fact_add()
  redis.call('SADD', KEYS[1], ARGV[1])
end

local function fact_remove()
  redis.call('SREM', KEYS[1], ARGV[1])
end
