-- Writes fields of the state of an import, if the caller still runs it.
--
-- KEYS: the state. ARGV: the token of the run, then fields and values. Reply: 1, or 0 if another run has started or the import was
-- forgotten.
--
-- requires: HGET {import} f
-- requires: HSET {import} f v
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return 0
end
require_permission('HSET', KEYS[1], 'f', 'v')
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
return 1
