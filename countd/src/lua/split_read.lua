-- What the author of a shard was credited with. KEYS: the table and the Hash of authors. ARGV: the ID of the shard. Reply: the author (''
-- without one), and the amounts.
local author = author_get(KEYS[1], KEYS[2], ARGV[1])
if not author then
  return { '' }
end
return { author.uid, unpack(author.credited) }
