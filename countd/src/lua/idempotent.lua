-- Runs a command once for an idempotency key.
--
-- KEYS: optionally the idempotency key, then the keys of the command. ARGV: the guard of the idempotency key ('' without one), then the
-- command. Reply: the
-- command's reply, or the stored answer if the idempotency key exists.
local guard_key = ARGV[1] ~= '' and KEYS[1] or nil
local first = replayed(guard_key)
if first then
  return first
end
require_permission_to_remember(guard_key)
local damaged = day_mismatch_of_command(2)
if damaged then
  return damaged
end
-- A command that fails changes nothing and ends the script, so the idempotency key is not set.
local reply = redis.call(unpack(ARGV, 2))
day_count_reply(reply)
remember_reply(guard_key, ARGV[1], reply)
return reply
