-- A page of users from the Sets of days, then from the compacted facts.
--
-- KEYS: the index of days that have a Set, the compacted ids, the compacted non-numeric ids. ARGV: the arguments of set_paging.lua,
-- then prefix and suffix of the key of a day's Set. In cursors a day's Set is named by its day, the compacted ids by 1 and the
-- compacted non-numeric ids by 0: a user whose day is compacted meanwhile is on a later page. Reply: the users, and the cursor of
-- the next page ('' at the end).
--
-- requires: ZREVRANGEBYSCORE {days} 0 0
local prefix, suffix = ARGV[5], ARGV[6]
local from = tonumber(start)
-- Takes the place of the last user in cursors in an id set. The compacted ids can be converted from a Set to an id set between two pages:
-- they are then listed from their beginning.
local IN_IDS = 'ids'

-- Starts a Set from its beginning, unless the previous page ended in it.
local function begin(source)
  if source ~= from then
    cursor, last = '0', ''
  end
end

-- requires: EXISTS {ids}
local function take_compacted_ids()
  if not has_ids_pages(KEYS[2]) then
    if last == IN_IDS then
      cursor, last = '0', ''
    end
    return take_from(1, KEYS[2])
  end
  local remaining = limit - #users
  if remaining == 0 then
    return redis.call('EXISTS', KEYS[2]) == 1 and page_until(1, '0', '') or nil
  end
  if last ~= IN_IDS then
    cursor = '0'
  end
  local reply = ids_page(KEYS[2], cursor, remaining)
  for _, user in ipairs(reply[2]) do
    users[#users + 1] = user
  end
  return reply[1] ~= '0' and page_until(1, reply[1], IN_IDS) or nil
end

for _, day in ipairs(redis.call('ZREVRANGEBYSCORE', KEYS[1], from, '-inf')) do
  begin(tonumber(day))
  local full_page = take_from(day, prefix .. day .. suffix)
  if full_page then
    return full_page
  end
end
if from >= 1 then
  begin(1)
  local full_page = take_compacted_ids()
  if full_page then
    return full_page
  end
end
begin(0)
return take_from(0, KEYS[3]) or { users, '' }
