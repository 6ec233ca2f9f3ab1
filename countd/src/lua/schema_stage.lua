-- Begins a stage of the migration of a schema, if the stage before is the expected one. Starts a new epoch, which tells running processes to
-- read the layout again.
--
-- KEYS: the layout. ARGV: the field of the migration, the expected value ('' if there is none), the new value without the epoch that
-- follows it, the field of the epoch, field and expected value of the view, and its new value; then field and storage of each type
-- whose columns are recorded, and the schema that has them at the end. Reply: the epoch, or 0 if something has another value.
--
-- requires: HGET {layout} f
-- requires: HSET {layout} f v
local layout, field, expected, value, epoch, view, expected_view, new_view = KEYS[1], unpack(ARGV, 1, 7)
local columns = ARGV[#ARGV]
if (redis.call('HGET', layout, field) or '') ~= expected or (redis.call('HGET', layout, view) or '') ~= expected_view then
  return 0
end
require_permission('HSET', layout, field, value)
require_permission('HSET', layout, epoch, 1)
local since = start_epoch(layout, epoch)
for i = 8, #ARGV - 1, 2 do
  local storage = redis.call('HGET', layout, ARGV[i]) or ARGV[i + 1]
  redis.call('HSET', layout, ARGV[i], storage:match('^[^/]*') .. '/' .. columns)
end
redis.call('HSET', layout, view, new_view, field, value .. ' ' .. string.format('%.0f', since))
return since
