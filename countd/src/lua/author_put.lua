-- Registers the author of an entity in place of another one, whose credit moves with the entity.
--
-- KEYS and ARGV: those of the author (author.lua); without an author ('') the entity has none any more. Reply: whether the author changed.
local named = named_author(1)
if named.uid == '' and not named.before then
  return 0
end
return author_register(named) and 1 or 0
