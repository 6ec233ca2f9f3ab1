-- A fact as a bit. KEYS: the chunk that holds the bit, the index of chunks (a sorted set), the recount of the facts (recount.lua). ARGV: the
-- bit's offset in the chunk, the number of the chunk.
local FACT_KEYS, FACT_ARGS = 3, 2

-- requires: ZCARD {chunks}
local function facts_exist()
  return redis.call('ZCARD', KEYS[2]) > 0
end

-- requires: ZCARD {chunks}
-- requires: GETBIT {bits} 0
local function fact_exists()
  -- Raises WRONGTYPE before the first write.
  redis.call('ZCARD', KEYS[2])
  return redis.call('GETBIT', KEYS[1], ARGV[1]) == 1
end

-- Whether the sum of a recount includes the chunk, so that it changes with the fact.
local is_recounted = false

-- Reads whether it does. A key of another type is no recount.
-- requires: HGET {recount} f
local function read_recount()
  local next_chunk = redis.pcall('HGET', KEYS[3], 'next')
  if type(next_chunk) == 'table' then
    if not next_chunk.err:find('^WRONGTYPE') then
      error(next_chunk)
    end
    return
  end
  is_recounted = tonumber(ARGV[2]) < (tonumber(next_chunk or '') or 0)
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
  read_recount()
  if is_recounted then
    require_permission('HINCRBY', KEYS[3], 'sum', 1)
    require_permission('DEL', KEYS[3])
  end
end

-- requires: EXISTS {bits}
-- requires: ZADD {chunks} 0 0
-- requires: SETBIT {bits} 0 1
-- requires: HINCRBY {recount} f 1
local function fact_add()
  if redis.call('EXISTS', KEYS[1]) == 0 then
    redis.call('ZADD', KEYS[2], ARGV[2], ARGV[2])
  end
  redis.call('SETBIT', KEYS[1], ARGV[1], 1)
  if is_recounted then
    redis.call('HINCRBY', KEYS[3], 'sum', 1)
  end
end

-- requires: SETBIT {bits} 0 1
-- requires: BITPOS {bits} 1
-- requires: DEL {bits}
-- requires: ZREM {chunks} 0
-- requires: HINCRBY {recount} f 1
-- requires: EXISTS {chunks}
-- requires: DEL {recount}
local function fact_remove()
  redis.call('SETBIT', KEYS[1], ARGV[1], 0)
  if is_recounted then
    redis.call('HINCRBY', KEYS[3], 'sum', -1)
  end
  if redis.call('BITPOS', KEYS[1], 1) < 0 then
    redis.call('DEL', KEYS[1])
    redis.call('ZREM', KEYS[2], ARGV[2])
    -- The recount does not outlive the facts.
    if is_recounted and redis.call('EXISTS', KEYS[2]) == 0 then
      redis.call('DEL', KEYS[3])
    end
  end
end
