-- Sets a counter to 0. KEYS: the counters. ARGV: idx, least length. Replies what it was.
local misfit = counter_misfit(KEYS[1], tonumber(ARGV[2]))
if misfit then
  return counter_refusal(misfit)
end
return counter_reset(KEYS[1], ARGV[1])
