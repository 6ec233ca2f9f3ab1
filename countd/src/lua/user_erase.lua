-- Deletes the counters of a user if they are 0, or the same as before.
--
-- KEYS: where the counters may be, and optionally the log. ARGV: `read`, or the time after which nothing changes (milliseconds since 1970), then for each key
-- the row ('' for an object), and the expected counters ('' if they were missing), and the journal entry
-- ('' without the log). Reply of `read`: the counters at each key. Otherwise 0
-- if some of the counters have changed, 1 if counters were deleted, 2 if there were none, 3 if the time is over.
--
-- requires: TIME
-- requires: XADD {log} 0-* f v
local reads, found = ARGV[1] == 'read', 2
local entry, locations = ARGV[#ARGV], { unpack(KEYS) }
local log = entry ~= '' and table.remove(locations) or nil
local all, is_unchanged = {}, true
if not reads then
  local time = redis.call('TIME')
  if time[1] * 1000 + math.floor(time[2] / 1000) > tonumber(ARGV[1]) then
    return 3
  end
end
for k, key in ipairs(locations) do
  local row, expected = ARGV[2 * k], ARGV[2 * k + 1]
  if counter_mismatch(key, row, 0) then
    return counter_error('type')
  end
  local text, is_zero = counters_text(key, row)
  all[k] = text
  if text ~= '' then
    found = 1
    is_unchanged = is_unchanged and (is_zero or text == expected)
  end
end
if reads then
  return all
end
if not is_unchanged then
  return 0
end
for k, key in ipairs(locations) do
  counter_delete_require_permission(key, ARGV[2 * k])
end
if log and found == 1 then
  redis.call('XADD', log, '0-*', 'j', entry)
end
for k, key in ipairs(locations) do
  counter_delete(key, ARGV[2 * k])
end
return found
