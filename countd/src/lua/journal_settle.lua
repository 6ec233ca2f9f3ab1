-- Applies what journal entries have changed of a counter of a user, once.
--
-- KEYS: the counters, and the Hash of the counters that are settled. ARGV: row, idx, length and minimum length of the counters, the
-- difference, and the field of the counter in the Hash. Reply: whether the difference was added.
--
-- requires: HEXISTS {settled} f
-- requires: HSET {settled} f 1
local row, idx, len, min_len, difference, field = unpack(ARGV)
if redis.call('HEXISTS', KEYS[2], field) == 1 then
  return 0
end
local mismatch = counter_mismatch(KEYS[1], row, tonumber(min_len))
if mismatch then
  return counter_error(mismatch)
end
counter_require_permission(KEYS[1], row)
require_permission('HSET', KEYS[2], field, 1)
counter_add(KEYS[1], row, len, idx, difference)
redis.call('HSET', KEYS[2], field, 1)
return 1
