-- Whether a fact exists. KEYS: where it is, unless that is a String, and where it is then. ARGV: the user. Reply: 0 or 1.
--
-- requires: TYPE {ids}
local facts = redis.call('TYPE', KEYS[1]).ok == 'string' and KEYS[2] or KEYS[1]
return ids_contain(facts, ARGV[1]) and 1 or 0
