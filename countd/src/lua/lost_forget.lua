-- Forgets lost tables whose rows were rebuilt, except those that were lost again.
--
-- KEYS: the lost tables. ARGV: of each table its field and the value that the caller has read.
--
-- requires: HGET {reconcile} f
-- requires: HDEL {reconcile} f
for i = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
return 0
