-- Reads entries of a log, up to a number of bytes.
--
-- KEYS: the log. ARGV: the ID to start from, the maximum number of entries and of bytes, the maximum size of an entry, and how many
-- bytes of the payload of a larger entry are returned. Reply: for each entry its ID, its strings and its size; then the size of the
-- first entry that did not fit, or 0. The strings are field and payload, followed by an empty string if the entry has more fields. Those
-- of a group are all of its strings.
--
-- requires: XRANGE {log} - +
local from, count, max_bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local max_size, truncated = tonumber(ARGV[4]), tonumber(ARGV[5])
local entries, taken, page = {}, 0, 1

while #entries < count do
  -- A whole page is in memory at once, so pages start small and grow to the expected number of entries that fit.
  page = math.min(page, count - #entries)
  local next_page = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', page)
  for _, entry in ipairs(next_page) do
    local strings, size = entry[2], 0
    for _, value in ipairs(strings) do
      size = size + #value
    end
    local field, payload = (strings[1] or ''):sub(1, 64), strings[2] or ''
    if size > max_size then
      payload = payload:sub(1, truncated)
    end
    local bytes, kept = #payload, #strings == 2 and { field, payload } or { field, payload, '' }
    if field == 'g' and #strings == 4 and size <= max_size then
      bytes, kept = size, strings
    end
    if taken + bytes > max_bytes then
      return { entries, bytes }
    end
    taken = taken + bytes
    entries[#entries + 1] = { entry[1], kept, size }
  end
  -- After a foreign ID no entry has an offset.
  if #next_page < page or entries[#entries][1]:sub(1, 2) ~= '0-' then
    break
  end
  from = '(' .. next_page[#next_page][1]
  page = math.min(2 * page, math.max(1, math.floor((max_bytes - taken) * #entries / math.max(taken, 1))))
end
return { entries, 0 }
