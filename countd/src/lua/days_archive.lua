-- Moves the counts of past days to the archived days, and deletes the streams of these days. Readers add up both, so no answer changes.
--
-- KEYS: the Hash of days, and that of archived days. ARGV: the first date that is not archived, and the parts of the keys of streams
-- before and after the date. Reply: how many days were moved, and 1 if there are more.
--
-- requires: HKEYS {day_counts}
-- requires: HGET {day_counts} f
-- requires: HDEL {day_counts} f
-- requires: UNLINK {read_stream}
local MAX_DAYS = 62
local first_kept, prefix, suffix = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local past, has_more = {}, 0
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  local date = field:find('^%d%d%d%d%d%d%d%d$') and tonumber(field)
  if date and date < first_kept then
    if #past == MAX_DAYS then
      has_more = 1
      break
    end
    past[#past + 1] = field
  end
end
if #past == 0 then
  return { 0, 0 }
end
if is_not_hash(KEYS[2]) then
  return redis.error_reply('WRONGTYPE Operation against a key holding the wrong kind of value')
end
days_require_permission(KEYS[2])
require_permission('HDEL', KEYS[1], 'f')
if prefix ~= '' then
  require_permission('UNLINK', prefix .. past[1] .. suffix)
end
for _, date in ipairs(past) do
  local count = tonumber(redis.call('HGET', KEYS[1], date)) or 0
  field_add(KEYS[2], date, string.format('%.0f', count))
  redis.call('HDEL', KEYS[1], date)
  if prefix ~= '' then
    redis.call('UNLINK', prefix .. date .. suffix)
  end
end
return { #past, has_more }
