-- Sets a counter to 0. If it feeds the author of the entity, appends an entry to the log with which the consumer takes the credit back.
--
-- KEYS: the counters, optionally the log. ARGV: row, idx, minimum length of the counters, and the entry. Reply: the old value.
--
-- requires: XADD {log} 0-* f v
local row, idx, min_len, entry = unpack(ARGV)
local mismatch = counter_mismatch(KEYS[1], row, tonumber(min_len))
if mismatch then
  return counter_error(mismatch)
end
counter_require_permission(KEYS[1], row)
if KEYS[2] and (counter_get(KEYS[1], row, idx) or 0) > 0 then
  -- The last command that can fail comes first, since Redis does not roll a script back.
  redis.call('XADD', KEYS[2], '0-*', 'a', entry)
end
return counter_reset(KEYS[1], row, idx)
