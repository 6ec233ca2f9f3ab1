
-- What a script replies where counters cannot be used.
local function counter_refusal(misfit)
  if misfit == 'short' then
    return redis.error_reply('TOOSHORT the object has fewer counters than its schema ever had')
  end
  return redis.error_reply('WRONGTYPE Operation against a key holding the wrong kind of value')
end
