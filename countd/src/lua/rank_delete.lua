-- Deletes a ranking that is not configured any more. KEYS: the state. ARGV: the parts of the keys of sorted sets before and after the date.
--
-- requires: UNLINK {rank}
local ranking = { prefix = ARGV[1], suffix = ARGV[2] }
for _, day in ipairs(live_days(ranking, read_rank_state(KEYS[1]) or {})) do
  redis.call('UNLINK', day.key)
end
redis.call('UNLINK', KEYS[1])
return 1
