-- Initializes the layout of an empty server, completes the layout of data that an older version created, and reads it.
--
-- KEYS: the layout (a Hash). ARGV: the number of partitions, the hash of new data, the backend of new data, the storage of other
-- types of new data, the names of the metrics that feed authors (separated by spaces), then field and storage of each configured
-- type. Reply: all fields and values.
--
-- Data that has `partitions` and no `hash` was created by a version that knew CRC-16 and objects only, and took authors from events. In
-- new data `partitions` also names the hash: such a version compares the field with its own number, and refuses the data.
--
-- requires: HEXISTS {layout} f
-- requires: HSET {layout} f v
-- requires: HSETNX {layout} f v
-- requires: HGET {layout} f
-- requires: HGETALL {layout}
local layout, partitions, hash, backend, storage, author_metrics = KEYS[1], unpack(ARGV, 1, 5)
local authors = 'registry'

require_permission('HSETNX', layout, 'hash', hash)
require_permission('HSET', layout, 'author_metrics', '')
if redis.call('HEXISTS', layout, 'partitions') == 1 and redis.call('HEXISTS', layout, 'hash') == 0 then
  hash, storage, authors = 'crc16', 'object', 'event'
else
  partitions = partitions .. '/' .. hash
end
redis.call('HSETNX', layout, 'partitions', partitions)
redis.call('HSETNX', layout, 'hash', hash)
redis.call('HSETNX', layout, 'counters', backend)
redis.call('HSETNX', layout, 'authors', authors)
-- Tables are a type of the module.
if redis.call('HGET', layout, 'counters') ~= 'module' then
  storage = 'object'
end
redis.call('HSETNX', layout, 'storage:default', storage)
local default = redis.call('HGET', layout, 'storage:default')
for i = 6, #ARGV, 2 do
  -- Data that has objects by default has them for every type until it is migrated.
  redis.call('HSETNX', layout, ARGV[i], default == 'object' and default or ARGV[i + 1])
end
-- The place of a metric in the list is its column in the tables of authors, so the list only grows.
if redis.call('HGET', layout, 'authors') == 'registry' then
  local stored = redis.call('HGET', layout, 'author_metrics') or ''
  local list = stored
  for name in author_metrics:gmatch('%S+') do
    if not (' ' .. list .. ' '):find(' ' .. name .. ' ', 1, true) then
      list = list == '' and name or list .. ' ' .. name
    end
  end
  if list ~= stored then
    redis.call('HSET', layout, 'author_metrics', list)
  end
end
return redis.call('HGETALL', layout)
