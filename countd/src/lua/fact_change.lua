-- Adds or removes a fact, changes its counter and appends its event, atomically. A repeated change does nothing.
--
-- KEYS: the keys of the fact, the log, optionally the counters, optionally the idempotency key, and those of the author if the action
-- names one (author.lua). ARGV: the arguments of the fact, `add` or `remove`, the event, row, idx, length and minimum length of the
-- counters ('' without counters), the guard of the idempotency key ('' without one), whether the counter is verified (1 or 0), and the
-- arguments of the author. Reply: the stored answer if the idempotency key exists, an error of a split entity (split_base.lua), the error
-- AUTHORMISMATCH, the error NOCOUNTER if the counter is verified and is 0 although the entity has facts, otherwise, like RBM.MARK, whether
-- the fact changed and the counter's new value.
--
-- requires: XADD {log} 0-* f v
local op, event, row, idx, len, min_len, guard, verify = unpack(ARGV, FACT_ARGS + 1, FACT_ARGS + 8)
local adds, log, at = op == 'add', KEYS[FACT_KEYS + 1], FACT_KEYS + 2
local counters, guard_key
if idx ~= '' then
  counters, at = KEYS[at], at + 1
end
if guard ~= '' then
  guard_key = KEYS[at]
end

local first = replayed(guard_key)
if first then
  return first
end
local elsewhere = fact_elsewhere()
if elsewhere then
  return elsewhere
end
local named = named_author(FACT_ARGS + 9)
local refusal = author_mismatch(named)
if refusal then
  return refusal
end
local mismatch = counters and (counter_mismatch(counters, row, tonumber(min_len)) or day_mismatch(counters, row, idx))
if mismatch then
  return counter_error(mismatch)
end
local value = counters and counter_get(counters, row, idx) or false
local changed = fact_exists() ~= adds
if verify == '1' and (value or 0) == 0 and facts_exist() then
  return redis.error_reply('NOCOUNTER the counter is 0 although the set has members')
end
require_permission_to_remember(guard_key)
if changed then
  fact_require_permission(adds)
  if counters then
    counter_require_permission(counters, row)
  end
  -- The last command that can fail comes first, since Redis does not roll a script back.
  redis.call('XADD', log, '0-*', 'e', event)
  if adds then
    fact_add()
  else
    fact_remove()
  end
  -- Removing a fact does not create a missing counter.
  if counters and (adds or value) then
    value = counter_add(counters, row, len, idx, adds and 1 or -1)[1]
    day_count(value)
  end
end
author_register(named, changed)
remember(guard_key, guard, changed and 1 or 0, value)
return { changed and 1 or 0, value }
