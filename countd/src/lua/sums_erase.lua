-- Deletes the sums of credits of an erased user (sums.lua).
--
-- KEYS: the state of the sums, the table and the Hash of the sums. ARGV: the user, and the number of counters of users. Nothing is left to be
-- credited, so the sums are 0: a missing sum is the same. If they are not, sums and counters of this sweep cannot be compared: it is given
-- up. Reply: 1 if sums were deleted, or 0.
--
-- requires: HMGET {sums} f
-- requires: HDEL {sums} f
-- requires: HSET {sums} f v
local uid, count = ARGV[1], tonumber(ARGV[2])
local row, fields, is_zero = nil, {}, true
if table_rows and is_number(uid) then
  -- A key of another type has no sums.
  row = (table_rows(KEYS[2], { uid }) or {})[1]
  for _, sum in ipairs(row or {}) do
    is_zero = is_zero and sum == 0
  end
end
for idx = 0, count - 1 do
  local field = uid .. ':' .. idx
  local sum = redis.pcall('HMGET', KEYS[3], field)[1]
  if sum then
    fields[#fields + 1] = field
    is_zero = is_zero and tonumber(sum) == 0
  end
end
if not row and #fields == 0 then
  return 0
end
if row then
  counter_delete_require_permission(KEYS[2], uid)
end
if #fields > 0 then
  require_permission('HDEL', KEYS[3], fields[1])
end
require_permission('HSET', KEYS[1], 'f', 'v')
if row then
  counter_delete(KEYS[2], uid)
end
for _, field in ipairs(fields) do
  redis.call('HDEL', KEYS[3], field)
end
if not is_zero then
  local sweep = sums_state(KEYS[1])
  redis.call('HSET', KEYS[1], 'damaged', sweep)
end
return 1
