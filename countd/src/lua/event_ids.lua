-- The IDs of counted envelopes. An ID is a key of its own, which expires, or does not if IDs are kept forever. Numeric IDs that are kept
-- forever are in a set for each partition instead. Both are checked, so `dedup.events` can be changed at any time.

-- Reads the arguments: 1 if new IDs are kept forever, the number of sets, of each ID the number of its set (0 without one) and the ID.
-- The keys of the IDs begin at `first_key`, those of the sets at `first_set`.
local function read_event_ids(cursor, first_key, count, first_set)
  local ids = { forever = take(cursor) == '1', sets = {} }
  for s = 1, take_number(cursor) do
    local key = KEYS[first_set + s - 1]
    ids.sets[s] = { at = first_set + s - 1, key = key, is_usable = not ids_mismatch(key), added = {} }
  end
  for i = 1, count do
    ids[i] = { key = KEYS[first_key + i - 1], set = ids.sets[take_number(cursor)], id = take(cursor) }
  end
  return ids
end

-- Calls `refuse` with the place of each set that holds another type.
local function refuse_event_sets(ids, refuse)
  for _, set in ipairs(ids.sets) do
    if not set.is_usable then
      refuse(set.at, 'type')
    end
  end
end

-- Adds the number of each ID that was counted before to a list; 0 is the first.
-- requires: EXISTS {counted}
local function find_counted(ids, found)
  for i, id in ipairs(ids) do
    if redis.call('EXISTS', id.key) == 1 or id.set and id.set.is_usable and ids_contain(id.set.key, id.id) then
      found[#found + 1] = i - 1
    end
  end
end

-- All sets have one prefix, and so have all keys.
local function event_ids_require_permission(ids, seconds)
  if ids[1] then
    require_permission('SET', ids[1].key, 1, 'EX', seconds)
  end
  if ids.forever and ids.sets[1] then
    ids_require_permission('add', ids.sets[1].key)
  end
end

-- requires: SET {counted} 1 EX 1
local function remember_event_ids(ids, seconds)
  for _, id in ipairs(ids) do
    if ids.forever and id.set then
      id.set.added[#id.set.added + 1] = id.id
    elseif ids.forever then
      redis.call('SET', id.key, 1)
    else
      redis.call('SET', id.key, 1, 'EX', seconds)
    end
  end
  for _, set in ipairs(ids.sets) do
    for from = 1, #set.added, 1000 do
      ids_add(set.key, { unpack(set.added, from, math.min(from + 999, #set.added)) })
    end
  end
end
