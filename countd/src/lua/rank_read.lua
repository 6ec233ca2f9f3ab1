-- Reads the first entities of a ranking.
--
-- KEYS: the state. ARGV: the parts of the keys of sorted sets before and after the date, today, the day to read ('' for the latest one that
-- is complete, at most today if there is one), the number of entities, and the number of members with which a sorted set is known to
-- have the first ones. Reply: the day (-1 if none is complete), 1 if no entity is missing, then entities and scores.
--
-- requires: ZREVRANGEBYSCORE {rank} +inf -inf WITHSCORES LIMIT 0 1
-- requires: ZCARD {rank}
local ranking = { prefix = ARGV[1], suffix = ARGV[2] }
local today, wanted, count, top = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
local state = read_rank_state(KEYS[1]) or {}
local found
for _, day in ipairs(live_days(ranking, state)) do
  if state['complete:' .. day.number] and (not wanted or day.number == wanted) then
    if not found or day.number <= today then
      found = day
    end
  end
end
if not found then
  return { -1, 0 }
end
local sure = state['sure:' .. found.number]
local is_exact = not sure and (found.floor == 0 or redis.call('ZCARD', found.key) >= top)
local reply = { found.number, is_exact and 1 or 0 }
local entities = redis.call('ZREVRANGEBYSCORE', found.key, '+inf', sure or '-inf', 'WITHSCORES', 'LIMIT', 0, count)
for _, text in ipairs(entities) do
  reply[#reply + 1] = text
end
return reply
