-- Commits a batch atomically: changes counters, and advances the positions of the partitions past the batch.
--
-- KEYS: positions, dead letters, outbox, then the objects, then the tables, then the deduplication keys of envelopes, then those of
-- timelines (timelines.lua), then those of credits (credits.lua), then the sets of IDs of envelopes (event_ids.lua), then the keys of the
-- sections (sections.lua), and the stream of changes if they are announced. ARGV: the time; the time to live of deduplication keys in seconds; the numbers of objects, of tables, of
-- deduplication keys and of keys of timelines; the history of the server from which the batch was read, or '' if any will do; the number of positions, and of each its field (the number of a
-- partition, or `topic:` and that number for its position in the topic), its expected and its new value; the number of fences, and field and value of each; for each object its length, its minimum length, the number of arguments
-- that follow, and these: idx and delta of each field; for each table its length, 1 if it must exist or 0, the number of arguments that
-- follow, and these: row, idx and delta of each counter; the number of dead letters, and reason, kind, payload, partition, offset and length of each; the number of
-- outbox entries, and of each its partition, the number of arguments that follow, and these: fields and contents; the arguments of timelines; those of credits; 1 if changes are announced;
-- the number of keys of the sections; the arguments of the IDs of envelopes; those of the sections; if changes are announced, the number of entries that their stream retains and the contents of the new entries; and the number of the
-- arguments after those of credits.
--
-- Reply: {1, f, m, a, ...} if the batch was committed: f is 1 if the outbox got credits, m the number of entities whose events named another
-- author than the registered one, a is 0 if changes could not be announced, and else 1 more than the bytes that announce them. The replies
-- of the sections follow. Otherwise nothing changed: {0, i, ...} if these positions (0 is the first) have another value, {2, i, ...} if these objects or tables have
-- another type (tables are numbered after the objects, keys of credits after the tables, sets of IDs and keys of sections after these),
-- {4, i, ...} if
-- these objects are too short, {8, i, ...} if these keys of timelines have another type, {3, i, ...} if these envelopes were counted
-- before, {10} if the server has another history, {9, i, ...} if these tables (0 is the first table) must exist and do not, or the error DEADLETTER if the dead-letter stream is
-- damaged.
--
-- requires: HMGET {position} 0
-- requires: HSET {position} 0 1
-- requires: XADD {dead} * f v
-- requires: XDEL {dead} 0-1
-- requires: XADD {audit} MAXLEN ~ 1 * f v
-- requires: XDEL {audit} 0-1
-- requires: XADD {out} 0-* f v
-- requires: XDEL {out} 0-1

-- The maximum number of values passed to a function at once, which Lua's stack limits.
local MAX_UNPACK = 1000

-- The objects are KEYS[4] to KEYS[last_object]. The tables follow, up to KEYS[last_table], then the deduplication
-- keys, up to KEYS[last_guard], the keys of timelines, up to KEYS[last_timeline], and then the keys of credits.
local last_object = 3 + ARGV[3]
local last_table = last_object + ARGV[4]
local last_guard = last_table + ARGV[5]
local last_timeline = last_guard + ARGV[6]

if ARGV[7] ~= '' and server_history() ~= ARGV[7] then
  return { 10 }
end

local at = 8
local function next_count()
  local count = tonumber(ARGV[at])
  at = at + 1
  return count
end

-- The positions: expected and new ones. Offsets of streams begin at 1, those of the topic at 0.
local function first_position(field)
  return field:sub(1, 6) == 'topic:' and '0' or '1'
end
local partitions = next_count()
local fields, expected, moves, conflicts = {}, {}, {}, { 0 }
for i = 1, partitions do
  fields[i], expected[i] = ARGV[at], ARGV[at + 1]
  moves[2 * i - 1], moves[2 * i] = ARGV[at], ARGV[at + 2]
  at = at + 3
end
for from = 1, partitions, MAX_UNPACK do
  local to = math.min(from + MAX_UNPACK - 1, partitions)
  local positions = redis.call('HMGET', KEYS[1], unpack(fields, from, to))
  for i = from, to do
    if (positions[i - from + 1] or first_position(fields[i])) ~= expected[i] then
      conflicts[#conflicts + 1] = i - 1
    end
  end
end
if #conflicts > 1 then
  return conflicts
end

-- The arguments after those of credits.
local first_tail = #ARGV - ARGV[#ARGV]
local tail = { at = first_tail }
local announces = take(tail) == '1'
local last_set = #KEYS - (announces and 1 or 0) - take_number(tail)
tail.key = last_set + 1
local event_ids = read_event_ids(tail, last_table + 1, last_guard - last_table, last_set - ARGV[tail.at + 1] + 1)
local duplicates = { 3 }
find_counted(event_ids, duplicates)
if #duplicates > 1 then
  return duplicates
end

-- ARGV has the fences from here on, then the objects, then the tables, then the dead letters.
local fences = at
at = at + 1 + 2 * ARGV[at]
local objects = at
local wrong_type, too_short = { 2 }, { 4 }
-- A permission check costs as much as the command. Keys with the same prefix (`cnt:v1:n`, `utab:4`) are checked once.
local PREFIX = 8
local checked = {}
local function is_new_prefix(key)
  local prefix = key:sub(1, PREFIX)
  local is_new = not checked[prefix]
  checked[prefix] = true
  return is_new
end
for k = 4, last_object do
  local mismatch = counter_mismatch(KEYS[k], '', tonumber(ARGV[at + 1]))
  if mismatch then
    local list = mismatch == 'short' and too_short or wrong_type
    list[#list + 1] = k - 4
  end
  if is_new_prefix(KEYS[k]) then
    counter_require_permission(KEYS[k], '')
  end
  at = at + 3 + ARGV[at + 2]
end
local tables = at
local missing_tables = { 9 }
for k = last_object + 1, last_table do
  local mismatch, rows = table_mismatch(KEYS[k])
  if mismatch then
    wrong_type[#wrong_type + 1] = k - 4
  elseif rows == 0 and ARGV[at + 1] == '1' then
    missing_tables[#missing_tables + 1] = k - last_object - 1
  end
  if is_new_prefix(KEYS[k]) then
    table_require_permission(KEYS[k])
  end
  at = at + 3 + ARGV[at + 2]
end
local last_arguments = at
-- The arguments of timelines and of credits follow those of dead letters and of the outbox.
at = at + 1 + 6 * ARGV[at]
for _ = 1, next_count() do
  at = at + 2 + ARGV[at + 1]
end
local unusable_timelines, timelines = { 8 }
timelines, at = read_timelines(at, last_guard + 1, function(k)
  unusable_timelines[#unusable_timelines + 1] = k - last_guard - 1
end)
local function refuse(k, mismatch)
  local list = mismatch == 'short' and too_short or wrong_type
  list[#list + 1] = last_table - 3 + k - last_timeline - 1
end
local sections = read_sections(tail, refuse)
local credits = read_credits(at < first_tail and at, last_timeline + 1, refuse)
refuse_event_sets(event_ids, refuse)
at = last_arguments
if #unusable_timelines > 1 then
  return unusable_timelines
end
if #wrong_type > 1 or #too_short > 1 then
  return #wrong_type > 1 and wrong_type or too_short
end
if #missing_tables > 1 then
  return missing_tables
end

require_permission('HSET', KEYS[1], '0', 1)
require_permission('XDEL', KEYS[2], '0-1')
require_permission('XDEL', KEYS[3], '0-1')
event_ids_require_permission(event_ids, ARGV[2])

-- Appends come first, because a stream may reject them. Earlier appends of the batch are then deleted.
local added = {}
local function append(key, id, ...)
  local new_id = redis.pcall('XADD', key, id, ...)
  if type(new_id) == 'table' then
    for _, entry in ipairs(added) do
      redis.call('XDEL', entry[1], entry[2])
    end
    if key == KEYS[2] and (new_id.err:find('^WRONGTYPE') or new_id.err:find('exhausted')) then
      return redis.error_reply('DEADLETTER ' .. new_id.err)
    end
    error(new_id)
  end
  added[#added + 1] = { key, new_id }
end
for _ = 1, next_count() do
  local refusal = append(KEYS[2], '*', 'reason', ARGV[at], 'kind', ARGV[at + 1], 'payload', ARGV[at + 2], 'partition', ARGV[at + 3],
    'offset', ARGV[at + 4], 'bytes', ARGV[at + 5], 'ts', ARGV[1])
  if refusal then
    return refusal
  end
  at = at + 6
end
for _ = 1, next_count() do
  append(KEYS[3], '0-*', 'to', ARGV[at], unpack(ARGV, at + 2, at + 1 + ARGV[at + 1]))
  at = at + 2 + ARGV[at + 1]
end
local forwards = forward_credits(credits, function(partition, ...)
  append(KEYS[3], '0-*', 'to', partition, ...)
end)
prepare_sums(credits)
run_sections('append', sections, append)

-- From here on nothing can fail. Redis does not roll a script back.
for from = 1, 2 * partitions, MAX_UNPACK do
  redis.call('HSET', KEYS[1], unpack(moves, from, math.min(from + MAX_UNPACK - 1, 2 * partitions)))
end
at = fences
for _ = 1, next_count() do
  redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1])
  at = at + 2
end
run_sections('before', sections)
at = objects
for k = 4, last_object do
  local len, count = ARGV[at], ARGV[at + 2]
  at = at + 3
  counter_add(KEYS[k], '', len, unpack(ARGV, at, at + count - 1))
  at = at + count
end
at = tables
for k = last_object + 1, last_table do
  local len, count = ARGV[at], ARGV[at + 2]
  at = at + 3
  table_add(KEYS[k], len, ARGV, at, at + count - 1)
  at = at + count
end
remember_event_ids(event_ids, ARGV[2])
write_timelines(timelines)
write_credits(credits)
write_sums()
local announced = 1
if announces then
  local retain, contents = take(tail), { unpack(ARGV, tail.at, #ARGV - 1) }
  add_users(contents, credits.direct)
  if #contents > 0 and not announce(KEYS[#KEYS], retain, contents) then
    announced = 0
  else
    for _, content in ipairs(contents) do
      announced = announced + #content
    end
  end
end
local reply = { 1, forwards and 1 or 0, credits.mismatches, announced }
run_sections('after', sections, reply)
return reply
