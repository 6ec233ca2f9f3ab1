-- Pages of users out of Sets. ARGV: how many users at most, then where the page before ended: which Set, SSCAN's cursor in it,
-- and, where it ended within what SSCAN returns at once, the last user.
--
-- Nobody who is there throughout is left out. So a page ends where SSCAN has a cursor, and may be shorter than asked for. Small
-- Sets, which SSCAN returns as a whole whatever it is asked for, are cut in the order of their members instead.
local limit, start, cursor, last = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local users = {}

local function page_until(source, at, user)
  return { users, source .. '.' .. at .. '.' .. user }
end

-- Takes what is left of a Set. The reply, if the page ends in it.
local function take_from(source, key)
  repeat
    local count = limit - #users
    if count == 0 then
      local more = cursor ~= '0' or redis.call('EXISTS', key) == 1
      return more and page_until(source, cursor, last) or nil
    end
    -- What the page before left of one piece is in that piece.
    local reply = redis.call('SSCAN', key, cursor, 'COUNT', last == '' and count or 1)
    local is_whole = cursor == '0' and reply[1] == '0'
    if #reply[2] > count and not is_whole and #users > 0 then
      reply = redis.call('SSCAN', key, cursor, 'COUNT', 1)
      if #reply[2] > count then
        return page_until(source, cursor, last)
      end
    elseif #reply[2] > count and not is_whole then
      reply = redis.call('SSCAN', key, cursor, 'COUNT', 1)
    end
    table.sort(reply[2])
    for _, user in ipairs(reply[2]) do
      if last == '' or user > last then
        if #users == limit then
          return page_until(source, cursor, users[limit])
        end
        users[#users + 1] = user
      end
    end
    cursor, last = reply[1], ''
  until cursor == '0'
end
