-- The newest facts of a timeline (timelines.lua), and whether it has older ones.
--
-- KEYS: the sorted set, the table (if the data has tables), then the keys of older facts (if there are any). ARGV: 1 if the second key is
-- a table or 0. Reply: the ids in the table; their times, as strings of unsigned big-endian integers of 5 bytes; id and time of each
-- fact in the sorted set; and for each key of older facts 1 if it exists or 0.
--
-- requires: CTAB.SCAN {newest_table} 0
-- requires: CTAB.MREAD 1 {newest_table} 0
-- requires: ZRANGE {newest_set} 0 -1
-- requires: EXISTS {older_ids}
-- requires: EXISTS {older_set}
local MAX_IDS = 4000
local ids, times, older = {}, {}, {}
local first_older = 2
if ARGV[1] == '1' then
  first_older = 3
  ids = redis.call('CTAB.SCAN', KEYS[2], 0, 'COUNT', 1000000)[2]
  for from = 1, #ids, MAX_IDS do
    times[#times + 1] = redis.call('CTAB.MREAD', 1, KEYS[2], unpack(ids, from, math.min(from + MAX_IDS - 1, #ids)))
  end
end
local scored = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for k = first_older, #KEYS do
  older[#older + 1] = redis.call('EXISTS', KEYS[k])
end
return { ids, times, scored, older }
