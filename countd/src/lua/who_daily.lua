-- KEYS: the days that have a Set, folded ids, folded users whose ids are no numbers. ARGV, behind those of set_pages.lua: the key of a
-- day's Set up to the day and behind it. The Sets have their days as numbers, the folded ones are 1 and 0: a user who is folded
-- meanwhile comes later, never too late. Replies users, and where the page ended ('' at the end).
local before, after = ARGV[5], ARGV[6]
local from = tonumber(start)

local function reached(source)
  if source ~= from then
    -- The Set in which the page before ended is gone: this one is taken from its start.
    cursor, last = '0', ''
  end
end

local function folded_ids()
  if not ids_page then
    return take_from(1, KEYS[2])
  end
  local room = limit - #users
  if room == 0 then
    return redis.call('EXISTS', KEYS[2]) == 1 and page_until(1, '0', '') or nil
  end
  local reply = ids_page(KEYS[2], cursor, room)
  for _, user in ipairs(reply[2]) do
    users[#users + 1] = user
  end
  return reply[1] ~= '0' and page_until(1, reply[1], '') or nil
end

for _, day in ipairs(redis.call('ZREVRANGEBYSCORE', KEYS[1], from, '-inf')) do
  reached(tonumber(day))
  local full = take_from(day, before .. day .. after)
  if full then
    return full
  end
end
if from >= 1 then
  reached(1)
  local full = folded_ids()
  if full then
    return full
  end
end
reached(0)
return take_from(0, KEYS[3]) or { users, '' }
