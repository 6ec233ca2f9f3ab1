-- A fact as a bit. KEYS: the bits of a chunk, the chunks that there are (a sorted set). ARGV: the bit, the number of the chunk.
local FACT_KEYS, FACT_ARGS = 2, 2

local function fact_is()
  -- Of the wrong type, it fails here and not after the first write.
  redis.call('ZCARD', KEYS[2])
  return redis.call('GETBIT', KEYS[1], ARGV[1]) == 1
end

local function fact_need(adds)
  need('SETBIT', KEYS[1], ARGV[1], 1)
  if adds then
    need('EXISTS', KEYS[1])
    need('ZADD', KEYS[2], ARGV[2], ARGV[2])
  else
    need('BITPOS', KEYS[1], 1)
    need('DEL', KEYS[1])
    need('ZREM', KEYS[2], ARGV[2])
  end
end

local function fact_add()
  if redis.call('EXISTS', KEYS[1]) == 0 then
    redis.call('ZADD', KEYS[2], ARGV[2], ARGV[2])
  end
  redis.call('SETBIT', KEYS[1], ARGV[1], 1)
end

local function fact_remove()
  redis.call('SETBIT', KEYS[1], ARGV[1], 0)
  if redis.call('BITPOS', KEYS[1], 1) < 0 then
    redis.call('DEL', KEYS[1])
    redis.call('ZREM', KEYS[2], ARGV[2])
  end
end
