-- Initializes the layout of an empty server, completes the layout of data that an older version created, and reads it.
--
-- KEYS: the layout (a Hash). ARGV: the number of partitions, the hash of new data, the backend of new data, the storage of other
-- types of new data, the counters of authors that metrics feed (`metric>counter`, separated by spaces), the names of the metrics whose facts are kept
-- for users (or `?` if they are not decided yet), then field and storage of each configured type. Reply: all fields and values.
--
-- Data that has `partitions` and no `hash` was created by a version that knew CRC-16 and objects only, and took authors from events. In
-- new data `partitions` also names the hash: such a version compares the field with its own number, and refuses the data.
--
-- requires: HGETALL {layout}
-- requires: HSET {layout} f v
-- requires: HSETNX {layout} f v
local layout, partitions, hash, backend, storage, author_metrics, reverse_metrics = KEYS[1], unpack(ARGV, 1, 6)
local authors = 'registry'

require_permission('HGETALL', layout)
require_permission('HSETNX', layout, 'hash', hash)
require_permission('HSET', layout, 'author_metrics', '')
local stored, fields = {}, redis.call('HGETALL', layout)
for i = 1, #fields, 2 do
  stored[fields[i]] = fields[i + 1]
end
local function init(field, value)
  if not stored[field] then
    redis.call('HSETNX', layout, field, value)
    stored[field] = value
  end
end

if stored.partitions and not stored.hash then
  hash, storage, authors = 'crc16', 'object', 'event'
end
-- Data that has no such field may have facts that are not kept for users. A metric joins the list when these are added (`countd reverse
-- backfill`).
if not stored.partitions then
  init('reverse_metrics', reverse_metrics)
elseif stored.reverse_metrics == '?' and reverse_metrics ~= '?' then
  redis.call('HSET', layout, 'reverse_metrics', reverse_metrics)
end
init('partitions', partitions .. '/' .. hash)
init('hash', hash)
init('counters', backend)
init('authors', authors)
-- Tables are a type of the module.
if stored.counters ~= 'module' then
  storage = 'object'
end
init('storage:default', storage)
for i = 7, #ARGV, 2 do
  -- Data that has objects by default has them for every type until it is migrated.
  init(ARGV[i], stored['storage:default'] == 'object' and 'object' or ARGV[i + 1])
end
-- The place of a counter in the list is its column in the tables of authors, so the list only grows. An older version listed metrics: the
-- column of a metric is that of the first counter that it feeds.
local list, columns = {}, {}
for feed in (stored.author_metrics or ''):gmatch('%S+') do
  list[#list + 1] = feed
  columns[feed] = #list
end
for feed in author_metrics:gmatch('%S+') do
  local of_metric = columns[feed:match('^[^>]*')]
  if of_metric and list[of_metric]:find('>', 1, true) == nil then
    list[of_metric], columns[feed] = feed, of_metric
  elseif not columns[feed] then
    list[#list + 1] = feed
    columns[feed] = #list
  end
end
list = table.concat(list, ' ')
if stored.authors == 'registry' and list ~= (stored.author_metrics or '') then
  redis.call('HSET', layout, 'author_metrics', list)
end
return redis.call('HGETALL', layout)
