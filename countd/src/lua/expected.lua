-- Compares the counters of an entity that are 0 with the facts that they count, or with their total and days.

-- Whether all entries of the log were counted, so that counters which the consumer changes equal the numbers of facts.
-- requires: XINFO STREAM {log}
-- requires: HGET {position} 0
local function is_drained(log, positions, partition)
  local info, last = redis.pcall('XINFO', 'STREAM', log), '0-0'
  local position = redis.pcall('HGET', positions, partition)
  if type(position) == 'table' or info.err and not info.err:find('no such key') then
    return false
  end
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      last = info[i + 1]
    end
  end
  local offset = last:match('^0%-(%d+)$')
  return offset ~= nil and (tonumber(position) or 1) > tonumber(offset)
end

-- Reads the counters and their sources, and moves the cursor. KEYS: the counters, the log and the positions, then the keys of the
-- sources. ARGV: row, length and minimum length of the counters, the partition, the number of fields, then for each field its index, its
-- name, whether it feeds the author (1 or 0), and when it changes: `now` with the fact, `batched` with the commit of the event, `days` with
-- its total and days, `none` if nothing tells what it was, or `pending` if it is computed elsewhere; then the source, if it has facts
-- here, or the row of the total ('' if it is in a Hash) and the ID of the entity. KEYS of counts by day: the Hash of days, that of
-- archived days and the totals.
local function compare(cursor)
  local key, log, positions = unpack(KEYS, cursor.key, cursor.key + 2)
  local row, len, min_len, partition, count = unpack(ARGV, cursor.at, cursor.at + 4)
  cursor.key, cursor.at = cursor.key + 3, cursor.at + 5
  local damage, size = counter_mismatch(key, row, tonumber(min_len))
  local values = counter_fields(key, row, damage == 'type')
  local drained
  local state = { key = key, row = row, len = tonumber(len), damage = damage, log = log, fields = {} }
  -- The other rows of the table are lost, too.
  state.is_table_lost = row ~= '' and (damage == 'type' or size == 0)
  for i = 1, tonumber(count) do
    local idx, name, feeds, source = unpack(ARGV, cursor.at, cursor.at + 3)
    cursor.at = cursor.at + 4
    local stored = values and values[idx + 1]
    local field = { idx = tonumber(idx), name = name, feeds = feeds == '1', before = stored or 0 }
    field.expected = field.before
    local card, problem
    if source == 'days' then
      local total_row, eid = unpack(ARGV, cursor.at, cursor.at + 1)
      local numbers = read_day_numbers({ unpack(KEYS, cursor.key, cursor.key + 2) }, total_row, eid)
      cursor.at, cursor.key = cursor.at + 2, cursor.key + 3
      card = day_target(numbers, stored)
    elseif source ~= 'none' and source ~= 'pending' then
      card, problem = fact_card(read_card_source(cursor))
    end
    -- The counter may be lost: a recount of the facts will tell.
    state.is_large = state.is_large or problem == 'LARGE' and field.before == 0
    -- The counters of a damaged key are not replaced while facts are damaged, too.
    state.is_refused = state.is_refused or damage and problem == 'TYPE'
    -- A counter that is not 0 was not lost: reconciliation compares it.
    local is_lost = field.before == 0 and card ~= nil
    if is_lost and source == 'batched' then
      if drained == nil then
        drained = is_drained(log, positions, partition)
      end
      -- The counter of events that wait in the log is not known, but the number of facts is.
      field.shown, field.is_batched = card, true
    end
    if is_lost and (source == 'now' or source == 'days' or source == 'batched' and drained) then
      field.expected = card
    elseif damage and not stored then
      field.note = (card or source == 'pending' or problem == 'LARGE') and 'pending' or 'unrecoverable'
    end
    field.has_no_source = source == 'none'
    state.is_lost = state.is_lost or field.expected ~= field.before
    state.fields[i] = field
  end
  -- Counters that were deleted have lost the fields without a source, too.
  for _, field in ipairs(state.fields) do
    if not values and state.is_lost and field.has_no_source then
      field.note = 'unrecoverable'
    end
  end
  return state
end

-- The values to show, in the order of the fields.
local function shown(state)
  local values = {}
  for i, field in ipairs(state.fields) do
    values[i] = string.format('%.0f', field.shown or field.expected)
  end
  return values
end
