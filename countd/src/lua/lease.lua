-- Acquires, renews or releases a lock.
--
-- KEYS: the lock. ARGV: the token of the caller, the time to live in milliseconds (0 to release it). Reply: 1, or 0 if another caller has
-- the lock.
--
-- requires: GET {migration}
-- requires: SET {migration} x PX 1
-- requires: DEL {migration}
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then
  return 0
end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return 1
