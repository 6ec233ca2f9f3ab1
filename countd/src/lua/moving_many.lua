-- Checks, while migrations move the counters of types, that the caller has chosen their places as the slot says: objects, or rows. In the
-- latter case the objects are moved first. The rest of the script, which knows the places that the caller has chosen, follows.
--
-- The last KEYS: the phases of the slot, then object and table of each counter to be moved. The last arguments: the number of types, and
-- of each its name, and 1 if the caller has chosen rows or 0; the number of counters to be moved, and row and minimum length of each;
-- finally the number of these arguments.
--
-- Reply, if nothing but moves has happened: {5, i, ...} if the caller has to choose the other place for these types (0 is the first),
-- {6, i, ...} if these objects are damaged, {7, i, ...} if these objects are too short.
--
-- requires: HGET {phases} f
local function settle_all()
  local last = #ARGV
  local at, key = last - tonumber(ARGV[last]), #KEYS
  local types = tonumber(ARGV[at])
  local moves_at = at + 1 + 2 * types
  local moves = tonumber(ARGV[moves_at])
  local first_key = key - 2 * moves
  local reply = { 5 }
  for i = 1, types do
    local has_phase = redis.call('HGET', KEYS[first_key], ARGV[at + 2 * i - 1])
    if (has_phase and '1' or '0') ~= ARGV[at + 2 * i] then
      reply[#reply + 1] = i - 1
    end
  end
  if #reply > 1 then
    return reply
  end
  local damaged, short = { 6 }, { 7 }
  for i = 1, moves do
    local object, table_key = KEYS[first_key + 2 * i - 1], KEYS[first_key + 2 * i]
    -- The rest of the script reports a table of another type.
    if not table_mismatch(table_key) then
      local mismatch = counter_move(object, table_key, ARGV[moves_at + 2 * i - 1], ARGV[moves_at + 2 * i])
      if mismatch then
        local list = mismatch == 'short' and short or damaged
        list[#list + 1] = i - 1
      end
    end
  end
  if #damaged > 1 or #short > 1 then
    return #damaged > 1 and damaged or short
  end
  for i = last, at, -1 do
    ARGV[i] = nil
  end
  for i = key, first_key, -1 do
    KEYS[i] = nil
  end
  return nil
end
local unsettled = settle_all()
if unsettled then
  return unsettled
end
