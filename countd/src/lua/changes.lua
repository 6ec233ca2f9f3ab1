-- Announces changed entities in the stream of changes.

-- The maximum length of the content of an entry in bytes: MAX_CONTENT in domain/changes.rs.
local MAX_CONTENT = 3500

-- Appends contents to the stream of changes and trims it to about `retain` entries. Each entry has the ID of the entry before it, so a
-- reader notices that it has missed some. Returns false if the stream rejects them: counting does not depend on the stream.
-- requires: XREVRANGE {changes} + - COUNT 1
-- requires: XADD {changes} MAXLEN ~ 1 * n v
local function announce(key, retain, contents)
  local last = redis.pcall('XREVRANGE', key, '+', '-', 'COUNT', 1)
  if last.err then
    return false
  end
  local previous = last[1] and last[1][1] or '0-0'
  for _, content in ipairs(contents) do
    local id = redis.pcall('XADD', key, 'MAXLEN', '~', retain, '*', 'n', content, 'p', previous)
    if type(id) == 'table' then
      return false
    end
    previous = id
  end
  return true
end

-- Adds users to the contents of entries.
local function add_users(contents, users)
  for _, user in ipairs(users) do
    local last = contents[#contents]
    local is_user = last and contents.users
    local added = (is_user and ',' or last and ';user:' or 'user:') .. user.uid
    if last and #last + #added > MAX_CONTENT then
      contents[#contents + 1] = 'user:' .. user.uid
    elseif last then
      contents[#contents] = last .. added
    else
      contents[1] = added
    end
    contents.users = true
  end
end
