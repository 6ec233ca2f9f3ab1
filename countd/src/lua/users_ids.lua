-- A page of users from an id set, or from a Set in its place.
--
-- KEYS: the set. ARGV: the arguments of set_paging.lua, and the cursor in an id set. The set can be converted between two pages: it is then
-- listed from its beginning. Reply: the users, and the cursor of the next page ('' at the end).
if not has_ids_pages(KEYS[1]) then
  return take_from(0, KEYS[1]) or { users, '' }
end
local page = ids_page(KEYS[1], ARGV[5], limit)
return { page[2], page[1] ~= '0' and page[1] or '' }
