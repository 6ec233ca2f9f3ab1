-- Initializes the layout of an empty server, completes the layout of data that an older version created, and reads it.
--
-- KEYS: the layout (a Hash). ARGV: the number of partitions, the hash of new data, the backend of new data, the storage of other
-- types of new data, then field and storage of each configured type. Reply: all fields and values.
--
-- Data that has `partitions` and no `hash` was created by a version that knew CRC-16 and objects only. In new data `partitions` also
-- names the hash: such a version compares the field with its own number, and refuses the data.
--
-- requires: HGETALL {layout}
-- requires: HSETNX {layout} f v
local layout, partitions, hash, backend, storage = KEYS[1], unpack(ARGV, 1, 4)

require_permission('HGETALL', layout)
require_permission('HSETNX', layout, 'hash', hash)
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
  hash, storage = 'crc16', 'object'
end
init('partitions', partitions .. '/' .. hash)
init('hash', hash)
init('counters', backend)
-- Tables are a type of the module.
if stored.counters ~= 'module' then
  storage = 'object'
end
init('storage:default', storage)
for i = 5, #ARGV, 2 do
  -- Data that has objects by default has them for every type until it is migrated.
  init(ARGV[i], stored['storage:default'] == 'object' and 'object' or ARGV[i + 1])
end
return redis.call('HGETALL', layout)
