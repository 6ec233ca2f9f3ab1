-- Runs a command once for an idempotency key.
--
-- KEYS: the idempotency key, then the keys of the command. ARGV: the time to live of the idempotency key in seconds, then the command.
-- Reply: the command's reply, or nil if the idempotency key exists.
--
-- requires: EXISTS {dedup}
-- requires: SET {dedup} 1 EX 1
if redis.call('EXISTS', KEYS[1]) == 1 then
  return false
end
require_permission('SET', KEYS[1], 1, 'EX', ARGV[1])
-- A command that fails changes nothing and ends the script, so the idempotency key is not set.
local reply = redis.call(unpack(ARGV, 2))
redis.call('SET', KEYS[1], 1, 'EX', ARGV[1])
return reply
