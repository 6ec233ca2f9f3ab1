-- Timelines: the facts of a user, or the latest users of an entity, newest first.
--
-- A timeline has a key with its newest facts and their times: a table (row: the id, counter 0: the time), or a sorted set for ids that
-- are not numbers and for data without the module. The timeline of a user also has a key with its older facts, without times: an id
-- set, or a Set. A fact is in one of both keys. When the first key has more facts than are kept there, the older ones move to the second
-- key; without one they are dropped.
--
-- Arguments: the number of timelines; of each its form (`table` or `set`), 1 if it has a key of older facts or 0, how many of the newest
-- facts are kept, the number of changes, and of each the id and the time (`-` if the fact was removed, 0 if the time is not known). `+` and
-- `~` are the state of a fact that a check has found: it exists, or it does not (verified.lua).

-- The maximum number of timelines from which a script moves older facts: moving takes about a millisecond. The others follow with a later
-- change.
local MAX_MOVES = 16
-- The maximum number of values passed to a function at once, which Lua's stack limits.
local TIMELINE_UNPACK = 1000
-- The timelines that read_timelines has read.
local all_timelines = {}

-- The count in a reply; nil if the key holds another type.
local function timeline_count(reply)
  if type(reply) == 'table' then
    if not reply.err:find('^WRONGTYPE') then
      error(reply)
    end
    return nil
  end
  return reply
end

-- The number of newest facts; nil if the key holds another type.
-- requires: CTAB.CARD {newest_table}
-- requires: ZCARD {newest_set}
local function timeline_count_newest(timeline)
  if timeline.is_table then
    return timeline_count(redis.pcall('CTAB.CARD', timeline.newest))
  end
  return timeline_count(redis.pcall('ZCARD', timeline.newest))
end

-- The number of older facts; nil if the key holds another type.
-- requires: RBM.CARD {older_ids}
-- requires: SCARD {older_set}
local function timeline_count_older(timeline)
  if timeline.is_table then
    return timeline_count(redis.pcall('RBM.CARD', timeline.older))
  end
  return timeline_count(redis.pcall('SCARD', timeline.older))
end

local function timeline_require_permission(timeline)
  if timeline.other then
    timeline_require_permission(timeline.other)
  end
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

-- The key of the same facts in the other form: that of a sorted set or a Set ends in `:s`, before the hash tag.
local function timeline_other_key(key, is_table)
  local name, tag = key:match('^(.*)(:{%d+})$')
  name, tag = name or key, tag or ''
  return key ~= '' and (is_table and name .. ':s' .. tag or name:sub(1, -3) .. tag) or nil
end

-- Reads the arguments of timelines, which begin at `argument`; their keys begin at `key`. Changes nothing. Calls `unusable` with the number
-- of each key that holds another type. Returns the timelines, and the place after the arguments.
local function read_timelines(argument, key, unusable)
  local timelines, permitted, at = {}, {}, argument + 1
  for t = 1, tonumber(ARGV[argument]) do
    local timeline = { is_table = ARGV[at] == 'table', newest = KEYS[key], keep = tonumber(ARGV[at + 2]), at = at + 4 }
    timeline.last = timeline.at + 2 * ARGV[at + 3] - 1
    timeline.count = timeline_count_newest(timeline)
    if not timeline.count then
      unusable(key)
    end
    key = key + 1
    local kind = ARGV[at] .. ARGV[at + 1]
    if ARGV[at + 1] == '1' then
      timeline.older = KEYS[key]
      timeline.older_count = timeline_count_older(timeline)
      if not timeline.older_count then
        unusable(key)
      end
      key = key + 1
    end
    if IS_MIXED then
      timeline.other = {
        is_table = not timeline.is_table,
        newest = timeline_other_key(timeline.newest, timeline.is_table),
        older = timeline_other_key(timeline.older or '', timeline.is_table),
      }
    end
    -- A permission check costs as much as the command, and the keys of a kind have one prefix.
    if not permitted[kind] then
      permitted[kind] = true
      timeline_require_permission(timeline)
    end
    timelines[t] = timeline
    at = timeline.last + 1
  end
  all_timelines = timelines
  return timelines, at
end

-- requires: CTAB.MGET {newest_table} 0
-- requires: ZSCORE {newest_set} m
local function timeline_has(timeline, id)
  if timeline.is_table then
    return redis.call('CTAB.MGET', timeline.newest, id)[1] and true or false
  end
  return redis.call('ZSCORE', timeline.newest, id) and true or false
end

-- Removes a fact from the keys of the other form, where it is until an adoption has converted them. Returns the key in which it was,
-- `newest` or `older`, and its time in the former. A key that holds another type has no facts.
-- requires: CTAB.MGET {newest_table} 0
-- requires: ZSCORE {newest_set} m
-- requires: CTAB.DEL {newest_table} 0
-- requires: CTAB.CARD {newest_table}
-- requires: DEL {newest_table}
-- requires: ZREM {newest_set} m
-- requires: RBM.REM {older_ids} 0
-- requires: SREM {older_set} m
local function timeline_take(other, id)
  local time
  if other.is_table then
    local rows = redis.pcall('CTAB.MGET', other.newest, id)
    time = not rows.err and rows[1] and (rows[1][1] or 0)
    if time then
      redis.call('CTAB.DEL', other.newest, id)
      if redis.call('CTAB.CARD', other.newest) == 0 then
        redis.call('DEL', other.newest)
      end
    end
  else
    time = redis.pcall('ZSCORE', other.newest, id)
    time = type(time) == 'string' and time
    if time then
      redis.call('ZREM', other.newest, id)
    end
  end
  if time then
    return 'newest', time
  end
  local removed
  if other.older and other.is_table then
    removed = redis.pcall('RBM.REM', other.older, id)
  elseif other.older then
    removed = redis.pcall('SREM', other.older, id)
  end
  return type(removed) == 'number' and removed > 0 and 'older' or nil
end

-- Whether the keys of the other form have a fact.
-- requires: CTAB.MGET {newest_table} 0
-- requires: ZSCORE {newest_set} m
-- requires: RBM.CONTAINS {older_ids} 0
-- requires: SISMEMBER {older_set} m
local function timeline_other_contains(other, id)
  if not is_number(id) then
    return false
  end
  if other.is_table then
    local rows = redis.pcall('CTAB.MGET', other.newest, id)
    return not rows.err and rows[1] and true or other.older and redis.pcall('RBM.CONTAINS', other.older, id) == 1 or false
  end
  local time = redis.pcall('ZSCORE', other.newest, id)
  return type(time) == 'string' or other.older and redis.pcall('SISMEMBER', other.older, id) == 1 or false
end

-- Whether a timeline has a fact, a new or an older one.
-- requires: RBM.CONTAINS {older_ids} 0
-- requires: SISMEMBER {older_set} m
local function timeline_contains(timeline, id)
  if timeline_has(timeline, id) or timeline.other and timeline_other_contains(timeline.other, id) then
    return true
  end
  if not timeline.older or timeline.older_count == 0 then
    return false
  end
  if timeline.is_table then
    return redis.call('RBM.CONTAINS', timeline.older, id) == 1
  end
  return redis.call('SISMEMBER', timeline.older, id) == 1
end

-- Adds ids to the older facts.
-- requires: RBM.ADD {older_ids} 0
-- requires: SADD {older_set} m
local function timeline_add_older(timeline, ids)
  if not timeline.older then
    return
  end
  for from = 1, #ids, TIMELINE_UNPACK do
    local to = math.min(from + TIMELINE_UNPACK - 1, #ids)
    if timeline.is_table then
      redis.call('RBM.ADD', timeline.older, unpack(ids, from, to))
    else
      redis.call('SADD', timeline.older, unpack(ids, from, to))
    end
  end
  timeline.older_count = timeline.older_count + #ids
end

-- requires: RBM.REM {older_ids} 0
-- requires: SREM {older_set} m
local function timeline_remove_older(timeline, id)
  if not timeline.older or timeline.older_count == 0 then
    return
  end
  if timeline.is_table then
    redis.call('RBM.REM', timeline.older, id)
  else
    redis.call('SREM', timeline.older, id)
  end
end

-- Removes the oldest `excess` facts from a table. Returns their ids.
-- requires: CTAB.SCAN {newest_table} 0
-- requires: CTAB.DEL {newest_table} 0
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
-- requires: ZPOPMIN {newest_set} 1
local function set_pop_oldest(key, excess)
  local popped, oldest = redis.call('ZPOPMIN', key, excess), {}
  for i = 1, #popped, 2 do
    oldest[#oldest + 1] = popped[i]
  end
  return oldest
end

-- Removes a fact.
-- requires: CTAB.DEL {newest_table} 0
-- requires: ZREM {newest_set} m
local function timeline_remove(timeline, id)
  local removed
  if timeline.is_table then
    removed = redis.call('CTAB.DEL', timeline.newest, id)
  else
    removed = redis.call('ZREM', timeline.newest, id)
  end
  if removed == 0 then
    timeline_remove_older(timeline, id)
  end
  timeline.removes = true
end

-- Adds a fact with its time.
-- requires: CTAB.SET {newest_table} 0 LEN 1 0 0
-- requires: ZADD {newest_set} 0 m
local function timeline_add(timeline, id, time)
  if timeline.is_table then
    redis.call('CTAB.SET', timeline.newest, id, 'LEN', 1, 0, time)
  else
    redis.call('ZADD', timeline.newest, time, id)
  end
  timeline.count = timeline.count + 1
  timeline_remove_older(timeline, id)
end

-- Moves a fact from the keys of the other form to those of the timeline.
local function timeline_adopt(timeline, id)
  local place, time = nil, nil
  if timeline.other and is_number(id) then
    place, time = timeline_take(timeline.other, id)
  end
  if place == 'newest' then
    timeline_add(timeline, id, time)
  elseif place == 'older' then
    timeline_add_older(timeline, { id })
  end
end

-- Moves all newest facts of the other form to those of the timeline, before the oldest ones of both are moved on.
-- requires: CTAB.SCAN {newest_table} 0
-- requires: ZRANGE {newest_set} 0 -1
local function timeline_adopt_newest(timeline)
  local other, ids = timeline.other, nil
  if other.is_table then
    local page = redis.pcall('CTAB.SCAN', other.newest, 0, 'COUNT', 1000000)
    ids = page.err and {} or page[2]
  else
    local members = redis.pcall('ZRANGE', other.newest, 0, -1)
    ids = members.err and {} or members
  end
  for _, id in ipairs(ids) do
    timeline_adopt(timeline, id)
  end
end

-- Moves older facts of a timeline that has more than are kept.
local function timeline_move_older(timeline)
  local excess = timeline.count - timeline.keep
  if timeline.is_table then
    timeline_add_older(timeline, table_pop_oldest(timeline.newest, excess))
  else
    timeline_add_older(timeline, set_pop_oldest(timeline.newest, excess))
  end
end

-- Applies the changes of timelines. Nothing can fail here: types and permissions were checked. A time of 0 keeps the time of a fact that
-- has one.
-- requires: DEL {newest_table}
local function write_timelines(timelines)
  local moves = 0
  for _, timeline in ipairs(timelines) do
    for at = timeline.at, timeline.last, 2 do
      local id, time = ARGV[at], ARGV[at + 1]
      timeline_adopt(timeline, id)
      if time == '-' or time == '~' then
        timeline_remove(timeline, id)
      elseif time ~= '0' and time ~= '+' then
        timeline_add(timeline, id, time)
      elseif not timeline_has(timeline, id) then
        timeline_add_older(timeline, { id })
      end
    end
    local max = timeline.keep + math.floor(timeline.keep / 8)
    if timeline.removes or timeline.count > max then
      timeline.count = timeline_count_newest(timeline)
    end
    if timeline.count > max and moves < MAX_MOVES then
      if timeline.other then
        timeline_adopt_newest(timeline)
      end
      timeline_move_older(timeline)
      moves = moves + 1
    elseif timeline.removes and timeline.is_table and timeline.count == 0 then
      -- A table without rows would remain.
      redis.call('DEL', timeline.newest)
    end
  end
end
