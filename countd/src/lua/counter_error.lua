
-- The error reply for an object whose counters cannot be used, as `counter_mismatch` reports it.
local function counter_error(mismatch)
  if mismatch == 'short' then
    return redis.error_reply('TOOSHORT the object has fewer counters than its original schema')
  end
  return redis.error_reply('WRONGTYPE Operation against a key holding the wrong kind of value')
end
