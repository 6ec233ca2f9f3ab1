-- Computes the scores of some entities of a partition. A pass over all partitions completes the days that are pending.
--
-- KEYS: the state, and the totals of each metric of the ranking, which have all entities with counts by day. ARGV: the ranking (rank.lua),
-- the partition, the next partition of the pass ('' at its end), the number of entities after which the call ends, the place of the first
-- totals, the cursor in them, and of each totals `rows` or `fields`. Reply: the place and the cursor to continue at, and the number of
-- entities. The place is 0 at the end of the partition, or if the pass is at another partition.
--
-- requires: HDEL {rank} f
-- requires: HSET {rank} f v
-- requires: HSCAN {day_counts} 0 COUNT 1
local cursor = { at = 1, key = 1 }
local ranking = read_ranking(cursor)
local partition, next_partition, max = ARGV[cursor.at], ARGV[cursor.at + 1], tonumber(ARGV[cursor.at + 2])
local place, from, first_kind = tonumber(ARGV[cursor.at + 3]), ARGV[cursor.at + 4], cursor.at + 5
local state = read_rank_days(ranking)
if not state or state.definition ~= ranking.definition or state.next ~= partition then
  return { 0, '0', 0 }
end
rank_require_permission(ranking)

-- The next cursor in totals, and some of their IDs. Damaged totals have none.
local function page_of(key, kind, cursor)
  if kind == 'rows' then
    if is_not_totals(key, 0) then
      return '0', {}
    end
    local page = table_ids(key, cursor, max)
    return page[1], page[2]
  end
  if is_not_hash(key) then
    return '0', {}
  end
  local page, eids = redis.call('HSCAN', key, cursor, 'COUNT', max), {}
  for i = 1, #page[2], 2 do
    eids[#eids + 1] = page[2][i]
  end
  return page[1], eids
end

local count = 0
while place <= #KEYS - 1 do
  local next_cursor, eids = page_of(KEYS[1 + place], ARGV[first_kind + place - 1], from)
  rank_entities(ranking, eids)
  count, from = count + #eids, next_cursor
  if from == '0' then
    place = place + 1
  end
  if count >= max and place <= #KEYS - 1 then
    return { place, from, count }
  end
end
if next_partition ~= '' then
  redis.call('HSET', ranking.state_key, 'next', next_partition)
else
  for number in state.pending:gmatch('%d+') do
    if state['floor:' .. number] then
      redis.call('HSET', ranking.state_key, 'complete:' .. number, 1)
      redis.call('HDEL', ranking.state_key, 'sure:' .. number)
    end
  end
  redis.call('HDEL', ranking.state_key, 'next', 'pending')
end
return { 0, '0', count }
