-- Moves a dead letter back to its log, atomically.
--
-- KEYS: the dead letters, the log, and those of the source of a check (sources.lua). ARGV: the ID of the dead letter, its kind and payload,
-- kind and payload of an entry that follows it ('' without one), and, if a check follows it, the beginning of its entry, the name of the
-- metric and the source of its facts. Reply: 1, or 0 if the dead letter no longer exists.
--
-- requires: XRANGE {dead} - +
-- requires: XDEL {dead} 0-1
-- requires: XADD {log} 0-* f v
-- requires: XDEL {log} 0-1
if #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 0 then
  return 0
end
require_permission('XDEL', KEYS[1], ARGV[1])
require_permission('XDEL', KEYS[2], '0-1')
local entries = { { ARGV[2], ARGV[3] } }
if ARGV[4] ~= '' then
  entries[#entries + 1] = { ARGV[4], ARGV[5] }
end
if ARGV[6] then
  local facts = fact_card(read_card_source({ at = 8, key = 3 }))
  -- Without a number, a later check finds the counter.
  if facts then
    entries[#entries + 1] = { 'c', string.format('%s,"checks":[["%s",%.0f]]}', ARGV[6], ARGV[7], facts) }
  end
end
-- If the first append fails, nothing has changed yet.
local added = {}
for _, entry in ipairs(entries) do
  local id = redis.pcall('XADD', KEYS[2], '0-*', entry[1], entry[2])
  if type(id) == 'table' then
    for _, earlier in ipairs(added) do
      redis.call('XDEL', KEYS[2], earlier)
    end
    error(id)
  end
  added[#added + 1] = id
end
redis.call('XDEL', KEYS[1], ARGV[1])
return 1
