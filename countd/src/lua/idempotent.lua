-- Runs a command once for an idempotency key.
--
-- KEYS: the idempotency key, then the keys of the command. ARGV: the guard of the idempotency key, then the command. Reply: the
-- command's reply, or the stored answer if the idempotency key exists.
local first = replayed(KEYS[1])
if first then
  return first
end
require_permission_to_remember(KEYS[1])
-- A command that fails changes nothing and ends the script, so the idempotency key is not set.
local reply = redis.call(unpack(ARGV, 2))
remember_reply(KEYS[1], ARGV[1], reply)
return reply
