-- KEYS: counters, a log, and maybe what is remembered of an idempotency key. ARGV: idx, length, delta, event, for how many
-- seconds the key is remembered. Replies the counter after, or nil if the key was there.
if KEYS[3] and redis.call('EXISTS', KEYS[3]) == 1 then
  return false
end
if not counter_fits(KEYS[1]) then
  return redis.error_reply('WRONGTYPE Operation against a key holding the wrong kind of value')
end
-- This one can still fail. What follows cannot: a script is not rolled back.
redis.call('XADD', KEYS[2], '0-*', 'e', ARGV[4])
local count = counter_add(KEYS[1], ARGV[2], ARGV[1], ARGV[3])
if KEYS[3] then
  redis.call('SET', KEYS[3], 1, 'EX', ARGV[5])
end
return count[1]
