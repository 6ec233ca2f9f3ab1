-- The entities of a user in a page of a table or a Hash of authors.
--
-- KEYS: the table or the Hash. ARGV: `table` or `hash`, the cursor, the number of entities to read, the user. Reply: the next cursor, and
-- the ids of the user's entities.
--
-- requires: HSCAN {authors} 0
local kind, cursor, count, uid = unpack(ARGV)
local found, page = {}, nil
if kind == 'table' then
  page = table_ids(KEYS[1], cursor, count)
  local rows = table_rows(KEYS[1], page[2])
  for i, eid in ipairs(page[2]) do
    if rows[i] and author_of_row(rows[i]).uid == uid then
      found[#found + 1] = eid
    end
  end
else
  page = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', count)
  for i = 1, #page[2], 2 do
    local author = author_of_field(page[2][i + 1])
    if author.uid == uid then
      found[#found + 1] = page[2][i]
    end
  end
end
return { page[1], found }
