-- Moves a dead letter back to its log, atomically.
--
-- KEYS: the dead letters, the log. ARGV: ID, kind and payload of the dead letter, optionally kind and payload of an entry that follows it.
-- Reply: 1, or 0 if the dead letter no longer exists.
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
-- If XADD fails, nothing has changed yet.
local id = redis.call('XADD', KEYS[2], '0-*', ARGV[2], ARGV[3])
if ARGV[4] then
  local follower = redis.pcall('XADD', KEYS[2], '0-*', ARGV[4], ARGV[5])
  if type(follower) == 'table' then
    redis.call('XDEL', KEYS[2], id)
    error(follower)
  end
end
redis.call('XDEL', KEYS[1], ARGV[1])
return 1
