-- Records, replaces or removes the state of a split entity in the layout, and starts a new epoch, if the state is the expected one.
--
-- KEYS: the layout. ARGV: the field, the expected value ('' without one), the new value ('' to remove it), and the field of the epoch.
-- Reply: the epoch, or 0 if the state is another one.
--
-- requires: HGET {layout} f
-- requires: HSET {layout} f v
-- requires: HDEL {layout} f
local field, expected, value, epoch = unpack(ARGV)
require_permission('HSET', KEYS[1], field, value)
require_permission('HDEL', KEYS[1], field)
require_permission('HSET', KEYS[1], epoch, 1)
if (redis.call('HGET', KEYS[1], field) or '') ~= expected then
  return 0
end
local since = start_epoch(KEYS[1], epoch)
if value == '' then
  redis.call('HDEL', KEYS[1], field)
else
  redis.call('HSET', KEYS[1], field, value)
end
return since
