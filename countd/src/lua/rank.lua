-- Rankings of entities by the sum of their weighted counts by day. A ranking of a type has a sorted set for each live day, and a Hash with
-- its state: `definition`, of each live day `floor:{day}` (a number of days since 1970), `complete:{day}` and `sure:{day}`, and `next` and
-- `pending` while it is filled.
--
-- All members of a sorted set have their exact score. The set has every entity with a score above the floor, if it is complete.

-- The date (20261231) of a number of days since 1970: the same computation as in domain/day.rs.
local function date_of_day(day)
  day = day + 719468
  local era, of_era = math.floor(day / 146097), day % 146097
  local leaps = math.floor(of_era / 1460) - math.floor(of_era / 36524) + math.floor(of_era / 146096)
  local year = math.floor((of_era - leaps) / 365)
  local of_year = of_era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local month = math.floor((5 * of_year + 2) / 153)
  local of_month = of_year - math.floor((153 * month + 2) / 5) + 1
  month = month < 10 and month + 3 or month - 9
  year = era * 400 + year + (month <= 2 and 1 or 0)
  return string.format('%04d%02d%02d', year, month, of_month)
end

-- The fields of the state. nil if the key holds another type.
-- requires: HGETALL {rank}
local function read_rank_state(key)
  local fields = redis.pcall('HGETALL', key)
  if fields.err then
    if not fields.err:find('^WRONGTYPE') then
      error(fields)
    end
    return nil
  end
  local state = {}
  for i = 1, #fields, 2 do
    state[fields[i]] = fields[i + 1]
  end
  return state
end

-- The live days of a state, in ascending order.
local function live_days(ranking, state)
  local days = {}
  for field, value in pairs(state) do
    local number = tonumber(field:match('^floor:(%d+)$'))
    if number then
      days[#days + 1] = { number = number, floor = tonumber(value) or 0, key = ranking.prefix .. date_of_day(number) .. ranking.suffix }
    end
  end
  table.sort(days, function(one, other)
    return one.number < other.number
  end)
  return days
end

-- Reads a ranking: KEYS[cursor.key] is its state. ARGV from cursor.at: the definition, the parts of the keys of sorted sets before and
-- after the date, the maximum number of members, the number of days, the half-life in hours (0 if all days weigh the same), the number of
-- metrics, and of each its weight, and the parts of the keys of archived days before and after the ID.
local function read_ranking(cursor)
  local function following()
    cursor.at = cursor.at + 1
    return ARGV[cursor.at - 1]
  end
  local ranking = { state_key = KEYS[cursor.key], metrics = {}, days = {} }
  cursor.key = cursor.key + 1
  ranking.definition, ranking.prefix, ranking.suffix = following(), following(), following()
  ranking.max, ranking.window, ranking.half_life = tonumber(following()), tonumber(following()), tonumber(following())
  for i = 1, tonumber(following()) do
    local weight, prefix, suffix = tonumber(following()), following(), following()
    ranking.metrics[i] = { weight = weight, prefix = prefix, suffixes = { suffix, (suffix:gsub('^:history', '')) } }
  end
  return ranking
end

-- Reads the live days of a ranking. A process with another definition has no days.
local function read_rank_days(ranking)
  local state = read_rank_state(ranking.state_key)
  if state and state.definition == ranking.definition then
    ranking.days = live_days(ranking, state)
  end
  ranking.is_other = state and state.definition and state.definition ~= ranking.definition
  return state
end

local function rank_require_permission(ranking)
  require_permission('HSET', ranking.state_key, 'f', 1)
  for _, day in ipairs(ranking.days) do
    for _, command in ipairs({ { 'ZADD', day.key, 1, 'm' }, { 'ZREM', day.key, 'm' }, { 'ZCARD', day.key }, { 'ZPOPMIN', day.key, 1 } }) do
      require_permission(unpack(command))
    end
  end
end

-- The weighted counts of an entity on each of these dates. A damaged Hash counts nothing.
-- requires: HMGET {day_counts} f
local function weighted_counts(ranking, eid, dates)
  local sums = {}
  for _, metric in ipairs(ranking.metrics) do
    for _, suffix in ipairs(metric.suffixes) do
      local counts = redis.pcall('HMGET', metric.prefix .. eid .. suffix, unpack(dates))
      if not counts.err then
        for i = 1, #dates do
          local count = counts[i] and tonumber(counts[i])
          if count then
            sums[i] = (sums[i] or 0) + metric.weight * count
          end
        end
      end
    end
  end
  return sums
end

-- Computes the scores of entities on all live days, and writes them. It cannot fail after `rank_require_permission`: a sorted set that holds
-- another type is left as it is, and replaced by the next step of the maintenance.
-- requires: ZADD {rank} 1 m
-- requires: ZREM {rank} m
-- requires: ZCARD {rank}
-- requires: ZPOPMIN {rank} 1
-- requires: HSET {rank} f v
local function rank_entities(ranking, eids)
  local days = ranking.days
  if #days == 0 or #eids == 0 then
    return
  end
  local first, dates = days[1].number - ranking.window + 1, {}
  for number = first, days[#days].number do
    dates[#dates + 1] = date_of_day(number)
  end
  local factors = {}
  for age = 0, ranking.window - 1 do
    factors[age] = ranking.half_life == 0 and 1 or 2 ^ (-24 * age / ranking.half_life)
  end
  for _, eid in ipairs(eids) do
    local sums = weighted_counts(ranking, eid, dates)
    for _, day in ipairs(days) do
      local score = 0
      for i = 1, #dates do
        local factor = sums[i] and factors[day.number - first - i + 1]
        if factor then
          score = score + sums[i] * factor
        end
      end
      local text = string.format('%.17g', score)
      if score > day.floor then
        redis.pcall('ZADD', day.key, text, eid)
      elseif score == day.floor and score > 0 then
        redis.pcall('ZADD', day.key, 'XX', text, eid)
      else
        redis.pcall('ZREM', day.key, eid)
      end
    end
  end
  for _, day in ipairs(days) do
    local card = redis.pcall('ZCARD', day.key)
    if type(card) == 'number' and card > ranking.max then
      local popped = redis.call('ZPOPMIN', day.key, card - ranking.max)
      -- The scores of all that were removed are at most this one.
      day.floor = tonumber(popped[#popped])
      redis.call('HSET', ranking.state_key, 'floor:' .. day.number, string.format('%.17g', day.floor))
    end
  end
end
