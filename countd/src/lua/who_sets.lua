-- KEYS: Sets, from the one on where the page before ended. Replies users, and where the page ended ('' at the end).
for k, key in ipairs(KEYS) do
  local full = take_from(start + k - 1, key)
  if full then
    return full
  end
end
return { users, '' }
