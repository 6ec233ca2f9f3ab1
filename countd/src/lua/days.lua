-- The section of a commit that counts by day.
--
-- KEYS: the Hashes of days and of totals, then the tables of totals, then the streams of days. ARGV: the number of Hashes, and of each
-- the number of values that follow, and field and delta of each; the number of tables, and of each the number of values that follow,
-- and row, 0 and delta of each; the maximum length of streams, the number of streams, and of each the number of values that follow, and
-- user, delta and time of each event.

-- Reads a list of keys, each with the place of its values. A permission check costs as much as the command, so only the first key of
-- those with a prefix is checked.
local function read_day_keys(cursor)
  local items, prefixes = {}, {}
  for i = 1, take_number(cursor) do
    local k, count = cursor.key, take_number(cursor)
    local prefix = KEYS[k]:sub(1, 8)
    items[i] = { k = k, key = KEYS[k], first = cursor.at, last = cursor.at + count - 1, is_first = not prefixes[prefix] }
    prefixes[prefix] = true
    cursor.key, cursor.at = k + 1, cursor.at + count
  end
  return items
end

-- requires: XLEN {read_stream}
local function is_not_stream(key)
  local len = redis.pcall('XLEN', key)
  if type(len) == 'table' and not len.err:find('^WRONGTYPE') then
    error(len)
  end
  return type(len) == 'table'
end

local function read_days(cursor, refuse)
  local state = { hashes = read_day_keys(cursor), tables = read_day_keys(cursor), max_len = take(cursor), streams = read_day_keys(cursor) }
  for _, hash in ipairs(state.hashes) do
    if is_not_hash(hash.key) then
      refuse(hash.k, 'type')
    elseif hash.is_first then
      days_require_permission(hash.key)
    end
  end
  for _, totals in ipairs(state.tables) do
    if is_not_totals(totals.key, 0) then
      refuse(totals.k, 'type')
    elseif totals.is_first then
      totals_require_permission(totals.key, 0)
    end
  end
  for _, stream in ipairs(state.streams) do
    if is_not_stream(stream.key) then
      refuse(stream.k, 'type')
    elseif stream.is_first then
      require_permission('XADD', stream.key, 'MAXLEN', '~', state.max_len, '*', 'f', 'v')
    end
  end
  return state
end

-- A stream whose IDs are exhausted loses the event. Counting does not depend on the streams.
-- requires: XADD {read_stream} MAXLEN ~ 1 * f v
local function write_days(state)
  for _, hash in ipairs(state.hashes) do
    local is_total = hash.key:sub(1, 5) == 'toth:'
    for at = hash.first, hash.last, 2 do
      if is_total then
        total_field_add(hash.key, ARGV[at], ARGV[at + 1])
      else
        field_add(hash.key, ARGV[at], ARGV[at + 1])
      end
    end
  end
  for _, totals in ipairs(state.tables) do
    totals_add(totals.key, ARGV, totals.first, totals.last)
  end
  for _, stream in ipairs(state.streams) do
    for at = stream.first, stream.last, 3 do
      redis.pcall('XADD', stream.key, 'MAXLEN', '~', state.max_len, '*', 'uid', ARGV[at], 'delta', ARGV[at + 1], 'ts', ARGV[at + 2])
    end
  end
end

SECTIONS[#SECTIONS + 1] = {
  read = function(cursor, refuse)
    return read_days(cursor, refuse)
  end,
  after = function(state)
    write_days(state)
  end,
}
