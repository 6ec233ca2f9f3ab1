-- Deletes the counters, the facts and the author of a shard, which the base has absorbed.
--
-- KEYS: the counters, the log, the table and the Hash of authors, and of each metric the facts. ARGV: the ID of the shard, the journal
-- entry without its changes ('' without one), and of each metric idx and name. Reply: 1.
--
-- requires: XADD {log} 0-* f v
-- requires: HDEL {authors} f
-- requires: UNLINK {ids}
local counters, log, authors, hash = unpack(KEYS, 1, 4)
local eid, entry = ARGV[1], ARGV[2]
local mismatch = counter_mismatch(counters, '', 0)
if mismatch then
  return counter_error(mismatch)
end
counter_delete_require_permission(counters, '')
author_require_permission(authors, hash)
local changes = {}
for k = 5, #KEYS do
  require_permission('UNLINK', KEYS[k])
  local idx, name = unpack(ARGV, 3 + 2 * (k - 5), 4 + 2 * (k - 5))
  local value = counter_get(counters, '', idx) or 0
  if value > 0 then
    changes[#changes + 1] = string.format('["%s",-%.0f]', name, value)
  end
end
if entry ~= '' and #changes > 0 then
  -- The last command that can fail comes first, since Redis does not roll a script back.
  redis.call('XADD', log, '0-*', 'j', entry .. table.concat(changes, ',') .. ']}')
end
counter_delete(counters, '')
redis.call('HDEL', hash, eid)
for k = 5, #KEYS do
  redis.call('UNLINK', KEYS[k])
end
return 1
