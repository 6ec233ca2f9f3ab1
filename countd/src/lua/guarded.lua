-- KEYS: what is remembered of an idempotency key, then the keys of a command. ARGV: for how many seconds, the command.
-- Replies nil if the key was there, else what the command replies.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return false
end
need('SET', KEYS[1], 1, 'EX', ARGV[1])
-- A command that fails has changed nothing, and ends the script: then the key is not remembered.
local reply = redis.call(unpack(ARGV, 2))
redis.call('SET', KEYS[1], 1, 'EX', ARGV[1])
return reply
