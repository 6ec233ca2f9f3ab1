-- Pages of users out of Sets. ARGV: how many users at most, then where the page before ended: which Set; SSCAN's cursor in it, or
-- `all`; and, where it ended within what is taken at once, the last user.
--
-- Nobody who is there throughout is left out. So a page ends where SSCAN has a cursor, and may be shorter than asked for. Small
-- Sets are taken as a whole (`all`) and cut in an order: numbers from the greatest down. One that has grown meanwhile is begun again.
local SMALL = 512
local limit, start, cursor, last = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local users = {}

local function is_before(one, other)
  if #one ~= #other then
    return #one > #other
  end
  return one > other
end

local function page_until(source, at, user)
  return { users, source .. '.' .. at .. '.' .. user }
end

-- What is taken at once: the cursor behind it, and users.
local function piece(key, room)
  if cursor == 'all' then
    return { '0', redis.call('SMEMBERS', key) }
  end
  -- What the page before left of one piece is in that piece.
  local found = redis.call('SSCAN', key, cursor, 'COUNT', last == '' and room or 1)
  if #found[2] <= room then
    return found
  end
  return redis.call('SSCAN', key, cursor, 'COUNT', 1)
end

-- Takes what is left of a Set. The reply, if the page ends in it.
local function take_from(source, key)
  local is_small = redis.call('SCARD', key) <= SMALL
  if cursor == '0' and last == '' and is_small then
    cursor = 'all'
  elseif cursor == 'all' and not is_small then
    cursor, last = '0', ''
  end
  repeat
    local room = limit - #users
    if room == 0 then
      return redis.call('EXISTS', key) == 1 and page_until(source, cursor, last) or nil
    end
    local found = piece(key, room)
    if #found[2] > room and #users > 0 and cursor ~= 'all' then
      return page_until(source, cursor, last)
    end
    table.sort(found[2], is_before)
    for _, user in ipairs(found[2]) do
      if last == '' or is_before(last, user) then
        if #users == limit then
          return page_until(source, cursor, users[limit])
        end
        users[#users + 1] = user
      end
    end
    cursor, last = found[1], ''
  until cursor == '0'
end
