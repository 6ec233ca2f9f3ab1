-- Reads entries of a log up to a number of bytes.
--
-- KEYS: the log. ARGV: the id to begin with, how many entries and how many bytes are wanted at most, how long an entry may be, and how
-- much is kept of the payload of a longer one. Replies id, words and bytes of each entry: two words, and a third, empty one where it has
-- others; and how many bytes the first entry has that did not fit, or 0.
local from, count, room = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local longest, start = tonumber(ARGV[4]), tonumber(ARGV[5])
local found, taken, page = {}, 0, 1

while #found < count do
  -- Few at first, and as many as may fit then: all of a page is in memory at once.
  page = math.min(page, count - #found)
  local some = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', page)
  for _, entry in ipairs(some) do
    local words, size = entry[2], 0
    for _, word in ipairs(words) do
      size = size + #word
    end
    local field, payload = (words[1] or ''):sub(1, 64), words[2] or ''
    if size > longest then
      payload = payload:sub(1, start)
    end
    if taken + #payload > room then
      return { found, #payload }
    end
    taken = taken + #payload
    found[#found + 1] = { entry[1], #words == 2 and { field, payload } or { field, payload, '' }, size }
  end
  -- Behind an id of others nothing is an entry of the log.
  if #some < page or found[#found][1]:sub(1, 2) ~= '0-' then
    break
  end
  from = '(' .. some[#some][1]
  page = math.min(2 * page, math.max(1, math.floor((room - taken) * #found / math.max(taken, 1))))
end
return { found, 0 }
