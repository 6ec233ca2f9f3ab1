-- Prepares the days of a ranking, and decides whether it must be filled.
--
-- KEYS: the state. ARGV: the ranking (rank.lua), today and the first day that stays (numbers of days since 1970), the number of members
-- below which an incomplete sorted set is filled again, and the first partition that a pass visits. Reply: the next partition of the pass;
-- -1 if there is nothing to fill; and the number of passes that this call has begun because an exact answer was not certain any more.
--
-- requires: HDEL {rank} f
-- requires: UNLINK {rank}
-- requires: ZCARD {rank}
-- requires: HSET {rank} f v
local cursor = { at = 1, key = 1 }
local ranking = read_ranking(cursor)
local today, keep_from, refill_below, first_partition = tonumber(ARGV[cursor.at]), tonumber(ARGV[cursor.at + 1]),
  tonumber(ARGV[cursor.at + 2]), ARGV[cursor.at + 3]

local state, is_restarted, refills = read_rank_state(ranking.state_key), false, 0
if not state or state.stale or state.definition ~= ranking.definition then
  for _, day in ipairs(live_days(ranking, state or {})) do
    redis.call('UNLINK', day.key)
  end
  redis.call('UNLINK', ranking.state_key)
  state = { definition = ranking.definition }
  redis.call('HSET', ranking.state_key, 'definition', ranking.definition)
end
local function set(field, value)
  state[field] = value
  if value then
    redis.call('HSET', ranking.state_key, field, value)
  else
    redis.call('HDEL', ranking.state_key, field)
  end
end
local function clear(number)
  for _, field in ipairs({ 'floor:', 'complete:', 'sure:' }) do
    set(field .. number, nil)
  end
end

for _, day in ipairs(live_days(ranking, state)) do
  local number = day.number
  local is_past = number < today - 1 or number < keep_from and state['complete:' .. today]
  local card = redis.pcall('ZCARD', day.key)
  if is_past or number > today + 1 then
    redis.call('UNLINK', day.key)
    clear(number)
  elseif type(card) ~= 'number' then
    -- It holds another type. It is created again below, if it is needed.
    redis.call('UNLINK', day.key)
    clear(number)
    is_restarted = true
  elseif state['complete:' .. number] and not state['sure:' .. number] and day.floor > 0 and card < refill_below then
    -- Entities at or below the floor may be among the first now.
    set('sure:' .. number, string.format('%.17g', day.floor))
    set('floor:' .. number, 0)
    refills = refills + 1
  end
end
for number = today, today + 1 do
  if not state['floor:' .. number] then
    redis.call('UNLINK', ranking.prefix .. date_of_day(number) .. ranking.suffix)
    clear(number)
    set('floor:' .. number, 0)
    is_restarted = true
  end
end
if is_restarted then
  -- The pass has not visited all entities since.
  set('next', nil)
  set('pending', nil)
end
local needed = {}
for _, day in ipairs(live_days(ranking, state)) do
  if not state['complete:' .. day.number] or state['sure:' .. day.number] then
    needed[#needed + 1] = day.number
  end
end
if #needed > 0 and not state.next then
  set('next', first_partition)
  set('pending', table.concat(needed, ','))
end
return { tonumber(state.next or -1), refills }
