-- Deletes the registration of an entity that has no author any more.
--
-- KEYS and ARGV: those of the author (author.lua). Reply: 1 if it was deleted, otherwise 0.
return author_forget(named_author(1))
