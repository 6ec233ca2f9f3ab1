-- Performs an action on a repeatable metric at most once for a user and an entity in a window of time, by the server's clock.
--
-- KEYS: the log, the keys of three consecutive windows, optionally the counters, optionally the idempotency key, and those of the author
-- if the action names one (author.lua). ARGV: the length of a window in seconds, the number of the first window, the time to live of a
-- window's key in seconds, the event, the guard of the idempotency key ('' without one), row, idx, length and minimum length of the
-- counters ('' without counters), and the arguments of the author. Reply: the stored answer if the idempotency key exists;
-- {'T', seconds}, the server's time, if the current window is none of the three; the error AUTHORMISMATCH; otherwise whether the action
-- was counted, and the counter's value.
--
-- requires: TIME
-- requires: EXISTS {dedup}
-- requires: SET {dedup} 1 EX 1
-- requires: XADD {log} 0-* f v
local seconds, first, ttl, event, guard, row, idx, len, min_len = unpack(ARGV)
local at, counters, guard_key = 5, nil, nil
if idx ~= '' then
  counters, at = KEYS[at], at + 1
end
if guard ~= '' then
  guard_key = KEYS[at]
end

local answer = replayed(guard_key)
if answer then
  return answer
end
local now = tonumber(redis.call('TIME')[1])
local position = math.floor(now / seconds) - first + 1
if position < 1 or position > 3 then
  return { 'T', now }
end
local window = KEYS[1 + position]
local named = named_author(10)
local refusal = author_mismatch(named)
if refusal then
  return refusal
end
local mismatch = counters and (counter_mismatch(counters, row, tonumber(min_len)) or day_mismatch(counters, row, idx))
if mismatch then
  return counter_error(mismatch)
end
require_permission_to_remember(guard_key)
if redis.call('EXISTS', window) == 1 then
  local value = counters and counter_get(counters, row, idx) or false
  author_register(named, false)
  remember(guard_key, guard, 0, value)
  return { 0, value }
end
if counters then
  counter_require_permission(counters, row)
end
require_permission('SET', window, 1, 'EX', ttl)
-- The last command that can fail comes first, since Redis does not roll a script back.
redis.call('XADD', KEYS[1], '0-*', 'e', event)
local value = counters and counter_add(counters, row, len, idx, 1)[1] or false
if counters then
  day_count(value)
end
redis.call('SET', window, 1, 'EX', ttl)
author_register(named, true)
remember(guard_key, guard, 1, value)
return { 1, value }
