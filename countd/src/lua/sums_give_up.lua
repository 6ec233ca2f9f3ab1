-- Gives up the sweep over authors that is under way in a slot (sums.lua): nothing is compared with its sums.
--
-- KEYS: the state of the sums. Reply: the number of the sweep, 0 before the first one.
--
-- requires: HGET {sums} f
-- requires: HSET {sums} f v
local sweep = redis.call('HGET', KEYS[1], 'sweep')
if not sweep then
  return 0
end
redis.call('HSET', KEYS[1], 'damaged', sweep)
return tonumber(sweep)
