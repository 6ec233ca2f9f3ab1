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
-- RBM.MARK and RBM.UNMARK reply whether the fact changed, and the count. XADD replies the ID of the entry.
if type(reply) == 'table' then
  remember(KEYS[1], ARGV[1], reply[1], reply[2])
else
  remember(KEYS[1], ARGV[1], 1, false)
end
return reply
