-- Erases what is left of an entity whose facts are removed: its counters, its latest users and its author.
--
-- Nothing changes while the entity has facts. Without facts its counters may be deleted regardless of events that are still in the log:
-- what is left of them removes facts. The author is unregistered in the same step, so the consumer takes back all credit. Latest users
-- that exist without facts are deleted in this step, too: later ones are those of a new life.
--
-- KEYS: the keys that exist while the entity has facts, the counters, the keys of latest users, optionally the stream of changes,
-- optionally the log, and those of the author (author.lua). ARGV: the time after which nothing changes (milliseconds since 1970), the number of keys of facts,
-- of counters and of latest users, the number of entries that the stream of changes retains, the content of the new entry ('' without
-- the stream), the journal entry ('' without the log), the row of each of the counters ('' for an object), and the arguments of the author. Reply: 0 if the entity has facts, 1
-- if something was erased, 2 if there was nothing, 3 if the time is over.
--
-- requires: TIME
-- requires: EXISTS {facts}
-- requires: UNLINK {latest}
-- requires: XADD {log} 0-* f v
local deadline, facts, counters, latest = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local retain_changes, change, entry, rows = ARGV[5], ARGV[6], ARGV[7], 7
local time = redis.call('TIME')
if time[1] * 1000 + math.floor(time[2] / 1000) > deadline then
  return 3
end
for k = 1, facts do
  if redis.call('EXISTS', KEYS[k]) == 1 then
    return 0
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
local named = named_author(rows + 1 + counters)
if named and named.before then
  found = 1
end
if entry ~= '' and found == 1 then
  redis.call('XADD', KEYS[facts + counters + latest + (change ~= '' and 2 or 1)], '0-*', 'j', entry)
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
if found == 1 and change ~= '' then
  announce(KEYS[facts + counters + latest + 1], retain_changes, { change })
end
return found
