-- Pages of users from Sets.
--
-- ARGV: the page size, then the cursor: the Set; SSCAN's cursor in it, or `all`; and the last user of the previous page, if that
-- page ended within an SSCAN reply.
--
-- A user who is a member during the whole listing is on a page. A page therefore ends at an SSCAN cursor and may be shorter than
-- the page size. A small Set is read as a whole (`all`) and cut in descending order. If it has grown meanwhile, paging starts
-- again.
local SMALL = 512
local limit, start, cursor, last = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local users = {}

local function is_before(one, other)
  if #one ~= #other then
    return #one > #other
  end
  return one > other
end

-- The reply for a page that ends here: the users, and the cursor of the next page.
local function page_until(source, scan_cursor, user)
  return { users, source .. '.' .. scan_cursor .. '.' .. user }
end

-- The next chunk of a Set: the SSCAN cursor after it, and its members.
-- requires: SMEMBERS {set}
-- requires: SSCAN {set} 0
local function chunk_of(key, remaining)
  if cursor == 'all' then
    return { '0', redis.call('SMEMBERS', key) }
  end
  -- A chunk that the previous page took only in part is read again with the same COUNT.
  local chunk = redis.call('SSCAN', key, cursor, 'COUNT', last == '' and remaining or 1)
  if #chunk[2] <= remaining then
    return chunk
  end
  return redis.call('SSCAN', key, cursor, 'COUNT', 1)
end

-- Adds the rest of a Set to the page. Returns the reply if the page ends in this Set.
-- requires: SCARD {set}
-- requires: EXISTS {set}
local function take_from(source, key)
  local is_small = redis.call('SCARD', key) <= SMALL
  if cursor == '0' and last == '' and is_small then
    cursor = 'all'
  elseif cursor == 'all' and not is_small then
    cursor, last = '0', ''
  end
  repeat
    local remaining = limit - #users
    if remaining == 0 then
      return redis.call('EXISTS', key) == 1 and page_until(source, cursor, last) or nil
    end
    local chunk = chunk_of(key, remaining)
    if #chunk[2] > remaining and #users > 0 and cursor ~= 'all' then
      return page_until(source, cursor, last)
    end
    table.sort(chunk[2], is_before)
    for _, user in ipairs(chunk[2]) do
      if last == '' or is_before(last, user) then
        if #users == limit then
          return page_until(source, cursor, users[limit])
        end
        users[#users + 1] = user
      end
    end
    cursor, last = chunk[1], ''
  until cursor == '0'
end
