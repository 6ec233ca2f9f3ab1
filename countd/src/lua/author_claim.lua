-- Registers the author of an entity unless it has one. KEYS and ARGV: those of the author (author.lua). Reply: whether the author changed,
-- or the error AUTHORMISMATCH with the author of the entity.
local named = named_author(1)
local mismatch = author_mismatch(named)
if mismatch then
  return mismatch
end
return author_register(named) and 1 or 0
