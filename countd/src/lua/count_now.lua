-- Changes a counter and appends the event to the log, atomically.
--
-- KEYS: the counters, the log, optionally the idempotency key, and those of the author if the action names one (author.lua). ARGV: row,
-- idx, length and minimum length of the counters, delta, event, time to live of the idempotency key in seconds ('' without one), and the
-- arguments of the author. Reply: the new value, nil if the idempotency key exists, or the error AUTHORMISMATCH.
--
-- requires: EXISTS {dedup}
-- requires: SET {dedup} 1 EX 1
-- requires: XADD {log} 0-* f v
local row, idx, len, min_len, delta, event, ttl = unpack(ARGV)
local guard = ttl ~= '' and KEYS[3]
if guard and redis.call('EXISTS', guard) == 1 then
  return false
end
local named = named_author(8)
local refusal = author_mismatch(named)
if refusal then
  return refusal
end
local mismatch = counter_mismatch(KEYS[1], row, tonumber(min_len))
if mismatch then
  return counter_error(mismatch)
end
counter_require_permission(KEYS[1], row)
if guard then
  require_permission('SET', guard, 1, 'EX', ttl)
end
-- The last command that can fail comes first, since Redis does not roll a script back.
redis.call('XADD', KEYS[2], '0-*', 'e', event)
local values = counter_add(KEYS[1], row, len, idx, delta)
author_register(named, true)
if guard then
  redis.call('SET', guard, 1, 'EX', ttl)
end
return values[1]
