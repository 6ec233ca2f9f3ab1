-- The number of facts of a metric on an entity, for every fact store. `card_source` of a store (facts/card.rs) tells where the facts are.

-- An index with more chunks of bits is not counted in one step: 1,024 chunks hold 33,554,432 bits.
local MAX_CHUNKS = 1024
-- A recount (recount.lua) is complete when its `next` is above the number of every chunk.
local NEXT_OF_COMPLETE = 131072

-- Reads a source and moves the cursor: four arguments at cursor.at (the kind, the number of keys, prefix and suffix of further keys), and
-- the keys at cursor.key.
local function read_card_source(cursor)
  local kind, count, prefix, suffix = unpack(ARGV, cursor.at, cursor.at + 3)
  local keys = { unpack(KEYS, cursor.key, cursor.key + count - 1) }
  cursor.at, cursor.key = cursor.at + 4, cursor.key + count
  return { kind = kind, keys = keys, prefix = prefix, suffix = suffix }
end

-- The facts of the base of an entity that is being split, is split, or was merged. During a merge those of the shards are added before the
-- base has their counts. The state and the types tell in the same step where the facts are, also to a caller with the generation of an
-- earlier split. KEYS: the facts while the entity is split, the state of the base, and the facts while the entity is whole.
-- requires: HMGET {split} f
-- requires: TYPE {ids}
local function count_base(keys)
  local frozen, state, whole = unpack(keys)
  local open, merging, absorbed = unpack(redis.call('HMGET', state, 'open', 'merging', 'absorbed'))
  if open and not merging then
    return ids_card(frozen)
  end
  if not merging or absorbed then
    local kind, kind_of_frozen = redis.call('TYPE', whole).ok, redis.call('TYPE', frozen).ok
    if kind ~= 'string' and (absorbed or kind_of_frozen == 'none') then
      return ids_card(whole)
    end
    -- They are frozen, and the shards are not open yet. After a merge a String is in the place of the facts.
    if kind == 'string' and not absorbed and kind_of_frozen ~= 'string' and kind_of_frozen ~= 'none' then
      return ids_card(frozen)
    end
  end
  return nil, 'TYPE'
end

-- requires: SCARD {set}
local function count_sets(keys)
  local count = 0
  for _, key in ipairs(keys) do
    count = count + redis.call('SCARD', key)
  end
  return count
end

-- The sum of a complete recount: the number of facts in this step.
-- requires: HMGET {recount} f
local function recounted(source)
  local found = redis.pcall('HMGET', source.prefix .. 'recount' .. source.suffix, 'next', 'sum')
  if not found.err and tonumber(found[1] or '') == NEXT_OF_COMPLETE then
    return tonumber(found[2] or '')
  end
end

-- requires: ZCARD {chunks}
-- requires: ZRANGE {chunks} 0 -1
-- requires: BITCOUNT {bits}
local function count_bits(source)
  local index, count = source.keys[1], 0
  if redis.call('ZCARD', index) > MAX_CHUNKS then
    local sum = recounted(source)
    return sum, not sum and 'LARGE' or nil
  end
  for _, chunk in ipairs(redis.call('ZRANGE', index, 0, -1)) do
    count = count + redis.call('BITCOUNT', source.prefix .. chunk .. source.suffix)
  end
  return count
end

-- requires: ZRANGE {days} 0 -1
-- requires: SCARD {day}
-- requires: SCARD {compacted}
local function count_days(source)
  local days, ids, others = unpack(source.keys)
  local count = ids_card(ids) + redis.call('SCARD', others)
  for _, day in ipairs(redis.call('ZRANGE', days, 0, -1)) do
    count = count + redis.call('SCARD', source.prefix .. day .. source.suffix)
  end
  return count
end

-- The facts that are kept for a user: of each timeline a table and a sorted set with the newer facts, an id set and a Set with the older ones.
-- requires: CTAB.CARD {newest_table}
-- requires: ZCARD {newest_set}
-- requires: RBM.CARD {older_ids}
-- requires: SCARD {older_set}
local function count_timelines(keys)
  local count = 0
  for k = 1, #keys, 4 do
    if table_rows then
      count = count + redis.call('CTAB.CARD', keys[k]) + redis.call('RBM.CARD', keys[k + 2])
    end
    count = count + redis.call('ZCARD', keys[k + 1]) + redis.call('SCARD', keys[k + 3])
  end
  return count
end

local function count_facts(source)
  if source.kind == 'ids' or source.kind == 'mixed_ids' then
    return ids_card(source.keys[1])
  elseif source.kind == 'base' then
    return count_base(source.keys)
  elseif source.kind == 'sets' then
    return count_sets(source.keys)
  elseif source.kind == 'bits' then
    return count_bits(source)
  elseif source.kind == 'timelines' then
    return count_timelines(source.keys)
  end
  return count_days(source)
end

-- Returns the number of facts. Nil and `TYPE` if one of the keys holds another type or the facts move between keys, nil and `LARGE` if there are too many to be counted in
-- one step.
local function fact_card(source)
  local is_counted, count, problem = pcall(function()
    return count_facts(source)
  end)
  if is_counted then
    return count, problem
  end
  -- The error of a command is a table or, with its position in the script, a text.
  local text = type(count) == 'table' and count.err or tostring(count)
  if text:find('WRONGTYPE ', 1, true) then
    return nil, 'TYPE'
  end
  error(count)
end
