-- Reads whether facts on entities of one partition exist, and appends what it has read to the log, in one step.
--
-- KEYS: the log, then those of the facts. ARGV: of each entity the beginning of the entry and the number of facts; of each fact the metric, the user,
-- how the fact is stored, the number of keys, and two arguments: `ids` (the key of an id set), `set` (that of a Set), `bit` (that of a chunk; the
-- bit), `days` (the index of days and the compacted ids; prefix and suffix of a day's Set), `named_days` (the same, with a Set of compacted ids),
-- or `none` if the store cannot have the fact. Reply: the ID of the last entry, '' without one.
--
-- requires: XADD {log} 0-* f v
-- requires: SISMEMBER {set} m
-- requires: GETBIT {bits} 0
-- requires: ZREVRANGE {days} 0 -1
-- requires: SISMEMBER {day} m
-- requires: SISMEMBER {compacted} m
local at, key = 1, 2

local function exists_in_days(uid, keys, prefix, suffix)
  for _, day in ipairs(redis.call('ZREVRANGE', keys[1], 0, -1)) do
    if redis.call('SISMEMBER', prefix .. day .. suffix, uid) == 1 then
      return true
    end
  end
  return false
end

local function exists(uid, kind, keys, first, second)
  if kind == 'ids' then
    return ids_contain(keys[1], uid)
  elseif kind == 'set' then
    return redis.call('SISMEMBER', keys[1], uid) == 1
  elseif kind == 'bit' then
    return redis.call('GETBIT', keys[1], first) == 1
  elseif kind == 'days' then
    return exists_in_days(uid, keys, first, second) or ids_contain(keys[2], uid)
  elseif kind == 'named_days' then
    return exists_in_days(uid, keys, first, second) or redis.call('SISMEMBER', keys[2], uid) == 1
  end
  return false
end

local entries = {}
while at <= #ARGV do
  local head, count, facts = ARGV[at], ARGV[at + 1], {}
  at = at + 2
  for _ = 1, count do
    local metric, uid, kind, keys, first, second = unpack(ARGV, at, at + 5)
    local of_fact = { unpack(KEYS, key, key + keys - 1) }
    at, key = at + 6, key + keys
    -- A fact whose key holds another type cannot be read.
    local is_read, found = pcall(exists, uid, kind, of_fact, first, second)
    if is_read then
      facts[#facts + 1] = string.format('["%s","%s",%s]', metric, uid, tostring(found))
    end
  end
  if #facts > 0 then
    entries[#entries + 1] = head .. ',"facts":[' .. table.concat(facts, ',') .. ']}'
  end
end
-- A log that rejects an entry rejects the first one: nothing has changed then.
local last = ''
for _, entry in ipairs(entries) do
  last = redis.call('XADD', KEYS[1], '0-*', 'c', entry)
end
return last
