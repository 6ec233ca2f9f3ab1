-- A fact as a member of an id set, or of a Set in its place. KEYS: the set. ARGV: the user.
local FACT_KEYS, FACT_ARGS = 1, 1

-- Whether the entity has facts.
-- requires: EXISTS {ids}
local function facts_exist()
  return redis.call('EXISTS', KEYS[1]) == 1
end

local function fact_exists()
  return ids_contain(KEYS[1], ARGV[1])
end

local function fact_require_permission(adds)
  ids_require_permission(adds and 'add' or 'remove', KEYS[1])
end

local function fact_add()
  ids_add(KEYS[1], { ARGV[1] })
end

local function fact_remove()
  ids_remove(KEYS[1], ARGV[1])
end
