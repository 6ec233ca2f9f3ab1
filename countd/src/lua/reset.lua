-- Sets a counter to 0. KEYS: the counters. ARGV: idx. Replies what it was.
if not counter_fits(KEYS[1]) then
  return redis.error_reply('WRONGTYPE Operation against a key holding the wrong kind of value')
end
return counter_reset(KEYS[1], ARGV[1])
