-- A page of users from Sets. KEYS: the Sets, from the Set in which the previous page ended. Reply: the users, and the cursor of the
-- next page ('' at the end).
for k, key in ipairs(KEYS) do
  local full_page = take_from(start + k - 1, key)
  if full_page then
    return full_page
  end
end
return { users, '' }
