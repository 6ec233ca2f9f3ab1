-- Counts facts of entities of one partition, and appends the numbers to its log, in one step.
--
-- KEYS: the log, then those of the sources (sources.lua). ARGV: of each entity the beginning of the entry, the number of metrics, and name
-- and source of each. Reply: the ID of the last entry ('' without one), and the number of metrics whose facts cannot be counted.
--
-- requires: XADD {log} 0-* f v
local cursor, entries, uncounted = { at = 1, key = 2 }, {}, 0
while cursor.at <= #ARGV do
  local head, count = ARGV[cursor.at], tonumber(ARGV[cursor.at + 1])
  local checks = {}
  cursor.at = cursor.at + 2
  for _ = 1, count do
    local metric = ARGV[cursor.at]
    cursor.at = cursor.at + 1
    local facts = fact_card(read_card_source(cursor))
    if facts then
      checks[#checks + 1] = string.format('["%s",%.0f]', metric, facts)
    else
      uncounted = uncounted + 1
    end
  end
  if #checks > 0 then
    entries[#entries + 1] = head .. ',"checks":[' .. table.concat(checks, ',') .. ']}'
  end
end
-- A log that rejects an entry rejects the first one: nothing has changed then.
local last = ''
for _, entry in ipairs(entries) do
  last = redis.call('XADD', KEYS[1], '0-*', 'c', entry)
end
return { last, uncounted }
