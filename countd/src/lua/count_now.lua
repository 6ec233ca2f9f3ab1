-- KEYS: counters, a log, and maybe what is remembered of an idempotency key. ARGV: idx, length, least length,
-- delta, event, for how many seconds the key is remembered. Replies the counter after, or nil if the key was there.
if KEYS[3] and redis.call('EXISTS', KEYS[3]) == 1 then
  return false
end
local misfit = counter_misfit(KEYS[1], tonumber(ARGV[3]))
if misfit then
  return counter_refusal(misfit)
end
counter_need(KEYS[1])
if KEYS[3] then
  need('SET', KEYS[3], 1, 'EX', ARGV[6])
end
-- This one can still fail. What follows cannot: a script is not rolled back.
redis.call('XADD', KEYS[2], '0-*', 'e', ARGV[5])
local count = counter_add(KEYS[1], ARGV[2], ARGV[1], ARGV[4])
if KEYS[3] then
  redis.call('SET', KEYS[3], 1, 'EX', ARGV[6])
end
return count[1]
