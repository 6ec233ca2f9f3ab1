-- A fact as a bit. KEYS: the chunk that holds the bit, the index of chunks (a sorted set). ARGV: the bit's offset in the chunk, the
-- number of the chunk.
local FACT_KEYS, FACT_ARGS = 2, 2

-- Whether the entity has facts that sources.lua can count.
-- requires: ZCARD {chunks}
local function facts_exist()
  local chunks = redis.call('ZCARD', KEYS[2])
  return chunks > 0 and chunks <= 1024
end

-- requires: ZCARD {chunks}
-- requires: GETBIT {bits} 0
local function fact_exists()
  -- Raises WRONGTYPE before the first write.
  redis.call('ZCARD', KEYS[2])
  return redis.call('GETBIT', KEYS[1], ARGV[1]) == 1
end

local function fact_require_permission(adds)
  require_permission('SETBIT', KEYS[1], ARGV[1], 1)
  if adds then
    require_permission('EXISTS', KEYS[1])
    require_permission('ZADD', KEYS[2], ARGV[2], ARGV[2])
  else
    require_permission('BITPOS', KEYS[1], 1)
    require_permission('DEL', KEYS[1])
    require_permission('ZREM', KEYS[2], ARGV[2])
  end
end

-- requires: EXISTS {bits}
-- requires: ZADD {chunks} 0 0
-- requires: SETBIT {bits} 0 1
local function fact_add()
  if redis.call('EXISTS', KEYS[1]) == 0 then
    redis.call('ZADD', KEYS[2], ARGV[2], ARGV[2])
  end
  redis.call('SETBIT', KEYS[1], ARGV[1], 1)
end

-- requires: SETBIT {bits} 0 1
-- requires: BITPOS {bits} 1
-- requires: DEL {bits}
-- requires: ZREM {chunks} 0
local function fact_remove()
  redis.call('SETBIT', KEYS[1], ARGV[1], 0)
  if redis.call('BITPOS', KEYS[1], 1) < 0 then
    redis.call('DEL', KEYS[1])
    redis.call('ZREM', KEYS[2], ARGV[2])
  end
end
