-- Sets a counter to 0. KEYS: the counters. ARGV: idx, minimum length of the object. Reply: the old value.
local mismatch = counter_mismatch(KEYS[1], tonumber(ARGV[2]))
if mismatch then
  return counter_error(mismatch)
end
return counter_reset(KEYS[1], ARGV[1])
