-- Timelines: the facts of a user, or the latest users of an entity, newest first.
--
-- A timeline has a key with its newest facts and their times: a table (row: the id, counter 0: the time), or a sorted set for ids that
-- are not numbers and for data without the module. The timeline of a user also has a key with its older facts, without times: an id
-- set, or a Set. A fact is in one of both keys. When the first key has more facts than are kept there, the older ones move to the second
-- key; without one they are dropped.
--
-- Arguments: the number of timelines; of each its form (`table` or `set`), 1 if it has a key of older facts or 0, how many of the newest
-- facts are kept, the number of changes, and of each the id and the time (`-` if the fact was removed, 0 if the time is not known).

-- The maximum number of timelines from which a script moves older facts: moving takes about a millisecond. The others follow with a later
-- change.
local MAX_MOVES = 16
-- The maximum number of values passed to a function at once, which Lua's stack limits.
local TIMELINE_UNPACK = 1000

-- The number of facts at a key; nil if it holds another type.
-- requires: CTAB.CARD {newest_table}
-- requires: RBM.CARD {older_ids}
-- requires: ZCARD {newest_set}
-- requires: SCARD {older_set}
local function timeline_count(command, key)
  local count = redis.pcall(command, key)
  if type(count) == 'table' then
    if not count.err:find('^WRONGTYPE') then
      error(count)
    end
    return nil
  end
  return count
end

-- requires: DEL {newest_table}
-- requires: CTAB.MGET {newest_table} 0
-- requires: CTAB.SCAN {newest_table} 0
-- requires: CTAB.SET {newest_table} 0 LEN 1 0 0
-- requires: CTAB.DEL {newest_table} 0
-- requires: RBM.ADD {older_ids} 0
-- requires: RBM.REM {older_ids} 0
-- requires: ZSCORE {newest_set} m
-- requires: ZADD {newest_set} 0 m
-- requires: ZREM {newest_set} m
-- requires: ZPOPMIN {newest_set} 1
-- requires: SADD {older_set} m
-- requires: SREM {older_set} m
local function timeline_require_permission(timeline)
  local newest, older = timeline.newest, timeline.older
  if timeline.is_table then
    require_permission('DEL', newest)
    require_permission('CTAB.MGET', newest, 0)
    require_permission('CTAB.SCAN', newest, 0)
    require_permission('CTAB.SET', newest, 0, 'LEN', 1, 0, 0)
    require_permission('CTAB.DEL', newest, 0)
  else
    require_permission('ZSCORE', newest, 'm')
    require_permission('ZADD', newest, 0, 'm')
    require_permission('ZREM', newest, 'm')
    require_permission('ZPOPMIN', newest, 1)
  end
  if older then
    require_permission(timeline.is_table and 'RBM.ADD' or 'SADD', older, 0)
    require_permission(timeline.is_table and 'RBM.REM' or 'SREM', older, 0)
  end
end

-- Reads the arguments of timelines, which begin at `argument`; their keys begin at `key`. Changes nothing. Calls `unusable` with the number
-- of each key that holds another type. Returns the timelines, and the place after the arguments.
local function read_timelines(argument, key, unusable)
  local timelines, permitted, at = {}, {}, argument + 1
  for t = 1, tonumber(ARGV[argument]) do
    local timeline = { is_table = ARGV[at] == 'table', newest = KEYS[key], keep = tonumber(ARGV[at + 2]), at = at + 4 }
    timeline.last = timeline.at + 2 * ARGV[at + 3] - 1
    timeline.count = timeline_count(timeline.is_table and 'CTAB.CARD' or 'ZCARD', timeline.newest)
    if not timeline.count then
      unusable(key)
    end
    key = key + 1
    local kind = ARGV[at] .. ARGV[at + 1]
    if ARGV[at + 1] == '1' then
      timeline.older = KEYS[key]
      timeline.older_count = timeline_count(timeline.is_table and 'RBM.CARD' or 'SCARD', timeline.older)
      if not timeline.older_count then
        unusable(key)
      end
      key = key + 1
    end
    -- A permission check costs as much as the command, and the keys of a kind have one prefix.
    if not permitted[kind] then
      permitted[kind] = true
      timeline_require_permission(timeline)
    end
    timelines[t] = timeline
    at = timeline.last + 1
  end
  return timelines, at
end

local function timeline_has(timeline, id)
  if timeline.is_table then
    return redis.call('CTAB.MGET', timeline.newest, id)[1] and true or false
  end
  return redis.call('ZSCORE', timeline.newest, id) and true or false
end

-- Adds ids to the older facts.
local function timeline_add_older(timeline, ids)
  if not timeline.older then
    return
  end
  for from = 1, #ids, TIMELINE_UNPACK do
    local to = math.min(from + TIMELINE_UNPACK - 1, #ids)
    redis.call(timeline.is_table and 'RBM.ADD' or 'SADD', timeline.older, unpack(ids, from, to))
  end
  timeline.older_count = timeline.older_count + #ids
end

local function timeline_remove_older(timeline, id)
  if timeline.older and timeline.older_count > 0 then
    redis.call(timeline.is_table and 'RBM.REM' or 'SREM', timeline.older, id)
  end
end

-- Removes the oldest `excess` facts from a table. Returns their ids.
local function table_pop_oldest(key, excess)
  local ids = redis.call('CTAB.SCAN', key, 0, 'COUNT', 1000000)[2]
  local rows, facts, oldest = table_rows(key, ids), {}, {}
  for i, id in ipairs(ids) do
    facts[i] = { id = id, time = rows[i] and rows[i][1] or 0 }
  end
  table.sort(facts, function(one, other)
    if one.time ~= other.time then
      return one.time < other.time
    elseif #one.id ~= #other.id then
      return #one.id < #other.id
    end
    return one.id < other.id
  end)
  for i = 1, math.min(excess, #facts) do
    oldest[i] = facts[i].id
  end
  for from = 1, #oldest, TIMELINE_UNPACK do
    redis.call('CTAB.DEL', key, unpack(oldest, from, math.min(from + TIMELINE_UNPACK - 1, #oldest)))
  end
  return oldest
end

-- Removes the oldest `excess` facts from a sorted set. Returns their ids.
local function set_pop_oldest(key, excess)
  local popped, oldest = redis.call('ZPOPMIN', key, excess), {}
  for i = 1, #popped, 2 do
    oldest[#oldest + 1] = popped[i]
  end
  return oldest
end

-- Applies one change. A time of 0 keeps the time of a fact that has one.
local function change_timeline(timeline, id, time)
  local newest = timeline.newest
  if time == '-' then
    local removed = redis.call(timeline.is_table and 'CTAB.DEL' or 'ZREM', newest, id)
    if removed == 0 then
      timeline_remove_older(timeline, id)
    end
    timeline.removes = true
  elseif time ~= '0' then
    if timeline.is_table then
      redis.call('CTAB.SET', newest, id, 'LEN', 1, 0, time)
    else
      redis.call('ZADD', newest, time, id)
    end
    timeline.count = timeline.count + 1
    timeline_remove_older(timeline, id)
  elseif not timeline_has(timeline, id) then
    timeline_add_older(timeline, { id })
  end
end

-- Applies the changes of timelines. Nothing can fail here: types and permissions were checked.
local function write_timelines(timelines)
  local moves = 0
  for _, timeline in ipairs(timelines) do
    for at = timeline.at, timeline.last, 2 do
      change_timeline(timeline, ARGV[at], ARGV[at + 1])
    end
    local max = timeline.keep + math.floor(timeline.keep / 8)
    if timeline.count > max and moves < MAX_MOVES then
      timeline.count = timeline_count(timeline.is_table and 'CTAB.CARD' or 'ZCARD', timeline.newest)
      if timeline.count > max then
        local pop = timeline.is_table and table_pop_oldest or set_pop_oldest
        timeline_add_older(timeline, pop(timeline.newest, timeline.count - timeline.keep))
        moves = moves + 1
      end
    elseif timeline.removes and timeline.is_table and timeline_count('CTAB.CARD', timeline.newest) == 0 then
      -- A table without rows would remain.
      redis.call('DEL', timeline.newest)
    end
  end
end
