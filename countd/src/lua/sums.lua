-- Sums of credits, by which the received counters of users are verified.
--
-- A sweep adds up what authors were credited with. It visits every registered author (colour.lua), gives the registration the sweep's
-- number as colour, and adds its credits to the author's sums. From the visit on, commits add each credit to the sums as well as to the
-- counter. A commit that credits an entity before its visit visits it. Credits that are taken back are subtracted from the sums if the registration had the colour. So when
-- all entities are visited, and all that was under way then is counted, sums and counters are equal in every step.
--
-- The state of a slot is a Hash with the number of the sweep and its stage: 1: the sums are new. 2 to 4: entities are coloured. 3: sums and
-- counters may be compared. 5: entities are not coloured any more. 6: the sweep has ended. A sweep enters a stage when all slots are in
-- the one before (sums_advance.lua). The sums are rows of a table, as the counters of users are, and for other ids fields `{uid}:{idx}` of a Hash.
--
-- Arguments: 0, or 1 if the sums of all partitions are in reach, 2 if those of one partition are; the number of counters of users; the number of columns
-- of credits that feed a known counter, and column, idx and name of each; the number of increments of sums, and of each the partition, the
-- user, the idx, the increment and the sweep. Keys: the state; and with 2 the table and the Hash of the sums.

local function read_sums(cursor)
  local reach = take(cursor)
  if reach == '0' then
    return {}
  end
  sums.state = take_key(cursor)
  sums.sweep, sums.stage = sums_state(sums.state)
  if reach == '2' then
    sums.table, sums.hash = take_key(cursor), take_key(cursor)
  end
  sums.len = take_number(cursor)
  for _ = 1, take_number(cursor) do
    sums.columns[take_number(cursor)] = { idx = take(cursor), name = take(cursor) }
  end
  if sums.stage >= 2 and sums.stage <= 4 then
    sums.colour = sums.sweep
  end
  sums.items = {}
  for i = 1, take_number(cursor) do
    local item = { partition = take(cursor), uid = take(cursor), idx = take(cursor), amount = take_number(cursor) }
    local sweep = take_number(cursor)
    if sweep == sums.sweep and sums.stage >= 1 and sums.stage <= 5 then
      sums.items[#sums.items + 1] = item
    end
  end
  return {}
end
SECTIONS[#SECTIONS + 1] = {
  read = function(cursor)
    return read_sums(cursor)
  end,
}

-- Whether a key can hold sums.
-- requires: HGET {sums} f
local function are_sums_usable(place)
  if place.is_table then
    return not table_mismatch(place.key)
  end
  local value = redis.pcall('HGET', place.key, 'f')
  return not (type(value) == 'table' and value.err)
end

-- Adds to the sums of a user, which write_sums writes.
local function add_to_sums(partition, uid, idx, amount)
  local is_table = table_rows ~= nil and is_number(uid)
  local key = is_table and (sums.table or 'usum:' .. partition) or (sums.hash or 'usumh:' .. partition)
  local place = sums.places[key]
  if not place then
    place = { key = key, is_table = is_table }
    sums.places[key] = place
    sums.is_damaged = sums.is_damaged or not are_sums_usable(place)
    -- A permission check costs as much as the command, and the keys of a kind have one prefix.
    if not sums.permitted[is_table] then
      sums.permitted[is_table] = true
      if is_table then
        table_require_permission(key)
      else
        require_permission('HINCRBY', key, 'f', 1)
      end
    end
  end
  place[#place + 1] = is_table and uid or uid .. ':' .. idx
  if is_table then
    place[#place + 1] = idx
  end
  place[#place + 1] = string.format('%.0f', amount)
end

-- Computes the changes of sums. Changes nothing.
local function prepare_sums(credits)
  sums.places, sums.permitted = {}, {}
  for _, item in ipairs(sums.items or {}) do
    add_to_sums(item.partition, item.uid, item.idx, item.amount)
  end
  for _, user in ipairs(credits.direct) do
    for idx, counter in pairs(user.sums) do
      add_to_sums(user.partition, user.uid, idx, counter.amount)
    end
  end
  if next(sums.places) then
    -- During an adoption, sums are in Hashes for some processes and in tables for others. The sweep is given up.
    sums.is_damaged = IS_MIXED or sums.is_damaged
    require_permission('HSET', sums.state, 'f', 'v')
  end
end

-- Writes the sums. If one of their keys holds another type, the sweep cannot compare them, and there is nothing to write.
-- requires: HINCRBY {sums} f 1
-- requires: HSET {sums} f v
local function write_sums()
  if sums.is_damaged then
    redis.call('HSET', sums.state, 'damaged', sums.sweep)
    return
  end
  for key, place in pairs(sums.places) do
    if place.is_table then
      table_add(key, sums.len, place, 1, #place)
    else
      for i = 1, #place, 2 do
        redis.call('HINCRBY', key, place[i], place[i + 1])
      end
    end
  end
end
