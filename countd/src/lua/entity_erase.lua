-- Erases what is left of an entity whose facts are removed: its counters, its latest users and its author.
--
-- Nothing changes while the entity has facts, or if the log has entries that the caller has not examined and that may be of the entity: an
-- event that is counted after the counters are deleted would create them again. The author is unregistered in the same step, so the consumer takes back all
-- credit. Latest users that exist without facts are deleted in this step, too: later ones are those of a new life.
--
-- The journal entry says up to which record of the topic events were counted before, so that a rebuild knows which records came after it.
--
-- KEYS: the keys that exist while the entity has facts, the counters, the keys of latest users, the log, the positions, of each metric with counts by day
-- the Hash of days, that of archived days and the totals, optionally the stream of changes, and those of the author (author.lua). ARGV:
-- the time after which nothing changes (milliseconds since 1970), the number of keys of facts, of counters and of latest users, the offset
-- of the last entry that the caller has examined ('' to delete in any case), the ID of the entity, the number of metrics with counts by
-- day, the number of entries that the stream of changes retains, the content of the new entry ('' without the stream), the journal entry
-- ('' without one), the partition if the data has a topic (else ''), the row of each of the counters ('' for
-- an object), of each metric with counts by day the row of the total ('' if it is in a Hash), the ID of the entity, and the parts of the
-- keys of streams before and after the date, and the arguments of the author. Reply: 0 if the entity has facts, 1 if something was erased,
-- 2 if there was nothing, 3 if the time is over, 4 if the log has later entries that may be of the entity.
--
-- requires: XRANGE {log} - +
-- requires: TIME
-- requires: EXISTS {facts}
-- requires: UNLINK {latest}
-- requires: XADD {log} 0-* f v
-- requires: HGET {position} 0
-- requires: HSET {position} 0 1
local deadline, facts, counters, latest = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local examined, eid, daily, retain_changes, change = ARGV[5], ARGV[6], tonumber(ARGV[7]), ARGV[8], ARGV[9]
local entry, of_topic, rows = ARGV[10], ARGV[11], 11
-- The maximum number of entries that the caller has not examined and that are examined here.
local MAX_LATER = 200
local log = facts + counters + latest + 1
local time = redis.call('TIME')
if time[1] * 1000 + math.floor(time[2] / 1000) > deadline then
  return 3
end
for k = 1, facts do
  if redis.call('EXISTS', KEYS[k]) == 1 then
    return 0
  end
end
if examined ~= '' then
  local later = redis.call('XRANGE', KEYS[log], '(0-' .. examined, '+', 'COUNT', MAX_LATER + 1)
  if #later > MAX_LATER then
    return 4
  end
  for _, entry in ipairs(later) do
    -- Entries of other entities may contain the ID, too. A foreign one may escape it. The caller examines them.
    local content = table.concat(entry[2] or {}, ' ')
    if content:find(eid, 1, true) or content:find('\\u', 1, true) then
      return 4
    end
  end
end
local found = 2
for k = facts + 1, facts + counters do
  local row = ARGV[rows + k - facts]
  if counter_mismatch(KEYS[k], row, 0) then
    return counter_error('type')
  end
  if counter_get(KEYS[k], row, 0) then
    found = 1
  end
  counter_delete_require_permission(KEYS[k], row)
end
for k = facts + counters + 1, facts + counters + latest do
  require_permission('UNLINK', KEYS[k])
end
local first_day, day_args = log + 1, rows + counters
local days = {}
for i = 0, daily - 1 do
  local hash, history, totals = unpack(KEYS, first_day + 3 * i + 1, first_day + 3 * i + 3)
  local row, eid, prefix, suffix = unpack(ARGV, day_args + 4 * i + 1, day_args + 4 * i + 4)
  days[i + 1] = days_to_erase(hash, history, { key = totals, row = row, eid = eid }, { prefix = prefix, suffix = suffix })
end
local named = named_author(day_args + 4 * daily + 1)
if named and named.before then
  found = 1
end
if entry ~= '' and found == 1 then
  local counted = of_topic ~= '' and (redis.call('HGET', KEYS[log + 1], 'topic:' .. of_topic) or '0')
  if counted then
    require_permission('HSET', KEYS[log + 1], 'erased:' .. of_topic, '1')
    entry = entry:sub(1, -2) .. ',"topic":' .. counted .. '}'
  end
  local id = redis.call('XADD', KEYS[log], '0-*', 'j', entry)
  if counted then
    redis.call('HSET', KEYS[log + 1], 'erased:' .. of_topic, id:match('%-(%d+)$'))
  end
end
if named then
  author_unregister(named)
end
for k = facts + 1, facts + counters do
  counter_delete(KEYS[k], ARGV[rows + k - facts])
end
for k = facts + counters + 1, facts + counters + latest do
  redis.call('UNLINK', KEYS[k])
end
for _, of in ipairs(days) do
  days_erase(of)
end
if found == 1 and change ~= '' then
  announce(KEYS[first_day + 3 * daily + 1], retain_changes, { change })
end
return found
