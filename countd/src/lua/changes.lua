-- Announces changed entities in the stream of changes.

-- The maximum length of the content of an entry in bytes: MAX_CONTENT in domain/changes.rs.
local MAX_CONTENT = 3500

-- The last ID that the stream has generated, also if its entry was deleted; 0-0 without a stream. False if the key cannot be read.
-- requires: XINFO STREAM {changes}
local function last_announced(key)
  local info = redis.pcall('XINFO', 'STREAM', key)
  if info.err then
    return info.err:find('no such key') and '0-0'
  end
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      return info[i + 1]
    end
  end
end

-- Appends contents to the stream of changes and trims it to about `retain` entries. Each entry has the ID of the entry before it, so a
-- reader notices that it has missed some, also if they were deleted. Returns false if the stream rejects them: counting does not depend on
-- the stream.
-- requires: XADD {changes} MAXLEN ~ 1 * n v
local function announce(key, retain, contents)
  local previous = last_announced(key)
  if not previous then
    return false
  end
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
