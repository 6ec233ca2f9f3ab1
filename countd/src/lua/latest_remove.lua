-- Removes a user from the table of the latest users of an entity. A table without rows is deleted.
--
-- KEYS: the table. ARGV: the user. Reply: the number of removed rows.
--
-- requires: CTAB.DEL {latest} 0
-- requires: CTAB.CARD {latest}
-- requires: DEL {latest}
require_permission('DEL', KEYS[1])
require_permission('CTAB.CARD', KEYS[1])
local removed = redis.pcall('CTAB.DEL', KEYS[1], ARGV[1])
if type(removed) == 'number' and removed > 0 and redis.call('CTAB.CARD', KEYS[1]) == 0 then
  redis.call('DEL', KEYS[1])
end
return removed
