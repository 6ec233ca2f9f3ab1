-- Reads the authors of entities. KEYS: the table and the Hash of the authors of each entity. ARGV: the id of each entity. Reply: the id of
-- each author; nil if the entity has none.
local authors = {}
for i, eid in ipairs(ARGV) do
  local author = author_get(KEYS[2 * i - 1], KEYS[2 * i], eid)
  authors[i] = author and author.uid ~= '' and author.uid or false
end
return authors
