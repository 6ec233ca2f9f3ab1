-- Replaces an entry of a stream of dead letters or of an audit by a copy with other values, or deletes it.
--
-- KEYS: the stream. ARGV: the ID of the entry, then the fields and values of the copy, if there is one. Reply: 1, or 0 if the entry does
-- not exist.
--
-- requires: XRANGE {audit} - +
-- requires: XRANGE {dead} - +
-- requires: XADD {audit} * f v
-- requires: XDEL {audit} 0-1
-- requires: XADD {dead} * f v
-- requires: XDEL {dead} 0-1
require_permission('XDEL', KEYS[1], ARGV[1])
if #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 0 then
  return 0
end
if ARGV[2] then
  redis.call('XADD', KEYS[1], '*', unpack(ARGV, 2))
end
return redis.call('XDEL', KEYS[1], ARGV[1])
