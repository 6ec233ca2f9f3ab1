-- Erases what is left of an entity whose facts are removed: its counters and its author.
--
-- Nothing changes while the entity has facts. Without facts its counters may be deleted regardless of events that are still in the log:
-- what is left of them removes facts. The author is unregistered in the same step, so the consumer takes back all credit.
--
-- KEYS: the keys that exist while the entity has facts, the counters, the keys to delete with them, and those of the author (author.lua),
-- or the log. ARGV: the time after which nothing changes (milliseconds since 1970), the number of keys of facts, of counters, and of keys
-- to delete, the row of each of the counters ('' for an object), and the arguments of the author. Reply: 0 if the entity has facts, 1 if
-- something was erased, 2 if there was nothing, 3 if the time is over.
--
-- requires: TIME
local deadline, facts, counters, others = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
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
  local row = ARGV[4 + k - facts]
  if counter_mismatch(KEYS[k], row, 0) then
    return counter_error('type')
  end
  if counter_get(KEYS[k], row, 0) then
    found = 1
  end
  counter_delete_require_permission(KEYS[k], row)
end
local named = named_author(5 + counters)
for k = facts + counters + 1, facts + counters + others do
  require_permission('UNLINK', KEYS[k])
end
if named and named.before then
  found = 1
  author_unregister(named)
end
for k = facts + 1, facts + counters do
  counter_delete(KEYS[k], ARGV[4 + k - facts])
end
for k = facts + counters + 1, facts + counters + others do
  if redis.call('UNLINK', KEYS[k]) == 1 then
    found = 1
  end
end
return found
