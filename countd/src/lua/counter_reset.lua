-- Sets a counter to 0. KEYS: the counters. ARGV: row, idx, minimum length of the counters. Reply: the old value.
local row, idx, min_len = unpack(ARGV)
local mismatch = counter_mismatch(KEYS[1], row, tonumber(min_len))
if mismatch then
  return counter_error(mismatch)
end
return counter_reset(KEYS[1], row, idx)
