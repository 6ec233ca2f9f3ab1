-- Changes a counter and appends the event to the log, atomically.
--
-- KEYS: the counters, the log, optionally the idempotency key. ARGV: row, idx, length and minimum length of the counters, delta, event,
-- time to live of the idempotency key in seconds. Reply: the new value, or nil if the idempotency key exists.
--
-- requires: EXISTS {dedup}
-- requires: SET {dedup} 1 EX 1
-- requires: XADD {log} 0-* f v
local row, idx, len, min_len, delta, event, ttl = unpack(ARGV)
if KEYS[3] and redis.call('EXISTS', KEYS[3]) == 1 then
  return false
end
local mismatch = counter_mismatch(KEYS[1], row, tonumber(min_len))
if mismatch then
  return counter_error(mismatch)
end
counter_require_permission(KEYS[1], row)
if KEYS[3] then
  require_permission('SET', KEYS[3], 1, 'EX', ttl)
end
-- The last command that can fail comes first, since Redis does not roll a script back.
redis.call('XADD', KEYS[2], '0-*', 'e', event)
local values = counter_add(KEYS[1], row, len, idx, delta)
if KEYS[3] then
  redis.call('SET', KEYS[3], 1, 'EX', ttl)
end
return values[1]
