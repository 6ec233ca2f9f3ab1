-- Initializes the layout of an empty server, completes the layout of data that an older version created, and reads it.
--
-- KEYS: the layout (a Hash). ARGV: the number of partitions, the hash of new data, the backend of new data, the storage of other
-- types of new data, then field and storage of each configured type. Reply: all fields and values.
--
-- Data that has `partitions` and no `hash` was created by a version that knew CRC-16 and objects only. In new data `partitions` also
-- names the hash: such a version compares the field with its own number, and refuses the data.
--
-- requires: HEXISTS {layout} f
-- requires: HSETNX {layout} f v
-- requires: HGET {layout} f
-- requires: HGETALL {layout}
local layout, partitions, hash, backend, storage = KEYS[1], unpack(ARGV, 1, 4)

require_permission('HSETNX', layout, 'hash', hash)
if redis.call('HEXISTS', layout, 'partitions') == 1 and redis.call('HEXISTS', layout, 'hash') == 0 then
  hash, storage = 'crc16', 'object'
else
  partitions = partitions .. '/' .. hash
end
redis.call('HSETNX', layout, 'partitions', partitions)
redis.call('HSETNX', layout, 'hash', hash)
redis.call('HSETNX', layout, 'counters', backend)
-- Tables are a type of the module.
if redis.call('HGET', layout, 'counters') ~= 'module' then
  storage = 'object'
end
redis.call('HSETNX', layout, 'storage:default', storage)
local default = redis.call('HGET', layout, 'storage:default')
for i = 5, #ARGV, 2 do
  -- Data that has objects by default has them for every type until it is migrated.
  redis.call('HSETNX', layout, ARGV[i], default == 'object' and default or ARGV[i + 1])
end
return redis.call('HGETALL', layout)
