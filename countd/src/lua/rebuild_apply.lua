-- Adds differences to counters of entities of a partition, unless something else than events has changed counters since they were read.
--
-- A difference between a counter and its shadow, both as of the same events, stays the same while events are counted: it can be added at
-- any time. Corrections of counters are in the audit; all other changes without an event are journal entries of the log.
--
-- KEYS: the log, the audit, the stream of changes, then the counters, the days, the archived days and the totals of each difference. ARGV:
-- the history of the server, the last ID of the log and of the audit when the counters were read, the maximum length of the audit, the number of entries that the
-- stream of changes retains, the number of announcements and their contents; the field of corrected days; the number of entities, and of
-- each its type and ID, its journal entry up to the changes, the row, length, 0, 1 or 2 as it was observed, and the number of differences;
-- of each difference the idx, the metric, the difference, 1 if it has days, and the row of the total; then fields and values of the audit.
-- Reply: 1; 0 if counters of the entities may have changed otherwise; or 2 if there are too many entries since then to tell.
--
-- requires: XRANGE {log} - +
-- requires: XRANGE {audit} - +
-- requires: XADD {log} 0-* f v
-- requires: DEL {counters}
-- requires: DEL {tables}
local MAX, MAX_ENTRIES = 1099511627775, 1000
local at, key_at = 1, 3
local function next_argument()
  at = at + 1
  return ARGV[at - 1]
end
local function next_key()
  key_at = key_at + 1
  return KEYS[key_at]
end
local function field_of(entry, name)
  for i = 1, #entry, 2 do
    if entry[i] == name then
      return entry[i + 1]
    end
  end
end

-- A server that has lost its last writes may have lost what the difference comes from.
if server_history() ~= next_argument() then
  return 0
end
local last, last_audit, retain, retain_changes = next_argument(), next_argument(), next_argument(), next_argument()
local contents = {}
for i = 1, tonumber(next_argument()) do
  contents[i] = next_argument()
end
local corrected_field = next_argument()
local entities, names = {}, {}
for i = 1, tonumber(next_argument()) do
  local entity = {
    etype = next_argument(), eid = next_argument(), journal = next_argument(), row = next_argument(), len = next_argument(),
    state = next_argument(), key = next_key(), differences = {},
  }
  for d = 1, tonumber(next_argument()) do
    local difference = {
      idx = next_argument(), metric = next_argument(), value = tonumber(next_argument()), daily = next_argument() == '1',
      total_row = next_argument(),
    }
    if difference.daily then
      difference.days, difference.history, difference.totals = next_key(), next_key(), next_key()
    end
    entity.differences[d] = difference
  end
  entities[i] = entity
  names[entity.etype .. ':' .. entity.eid] = true
end
local details = { unpack(ARGV, at) }

-- Whether a journal entry is of one of the entities, or cannot be read.
local function is_journal_of_entity(payload)
  local is_json, entry = pcall(cjson.decode, payload)
  if not is_json or type(entry) ~= 'table' then
    return true
  end
  return names[tostring(entry.etype) .. ':' .. tostring(entry.eid)]
end

-- Whether counters of the entities were changed by something else than events, and whether there are too many entries to tell.
local function is_stale()
  local entries = redis.call('XRANGE', KEYS[1], '(' .. last, '+', 'COUNT', MAX_ENTRIES)
  for _, entry in ipairs(entries) do
    if entry[2][1] == 'j' and is_journal_of_entity(entry[2][2]) then
      return true, false
    end
  end
  local audits = redis.call('XRANGE', KEYS[2], '(' .. last_audit, '+', 'COUNT', MAX_ENTRIES)
  for _, entry in ipairs(audits) do
    local name = (field_of(entry[2], 'etype') or '') .. ':' .. (field_of(entry[2], 'eid') or '')
    if names[name] and field_of(entry[2], 'difference') ~= '0' then
      return true, false
    end
  end
  return false, #entries == MAX_ENTRIES or #audits == MAX_ENTRIES
end

-- Reads the counters and what becomes of them. Returns whether an entity is as it was observed.
local function read(entity)
  local mismatch = counter_mismatch(entity.key, entity.row, 0)
  local exists = not mismatch and counter_get(entity.key, entity.row, 0)
  local state = mismatch == 'type' and '2' or exists and '1' or '0'
  for _, difference in ipairs(entity.differences) do
    difference.before = state == '1' and counter_get(entity.key, entity.row, difference.idx) or 0
    difference.after = math.max(0, math.min(MAX, difference.before + difference.value))
  end
  return state == entity.state
end

local function check_permissions(entity)
  counter_require_permission(entity.key, entity.row)
  require_permission('DEL', entity.key)
  for _, difference in ipairs(entity.differences) do
    if difference.daily then
      days_require_permission(difference.history)
      totals_require_permission(difference.totals, difference.total_row)
    end
  end
end

-- Appends to the log and the audit, which can fail.
local function append(entity)
  local changes = {}
  for i, difference in ipairs(entity.differences) do
    changes[i] = string.format('["%s",%.0f]', difference.metric, difference.value)
  end
  redis.call('XADD', KEYS[1], '0-*', 'j', entity.journal .. table.concat(changes, ',') .. ']}')
  for _, difference in ipairs(entity.differences) do
    audit(KEYS[2], retain, difference.before, difference.after, {
      'key', entity.key, 'row', entity.row, 'etype', entity.etype, 'eid', entity.eid, 'metric', difference.metric, unpack(details),
    })
  end
end

-- Sets the total and the sum of the days to the counter.
local function correct_days(entity, difference)
  if is_not_hash(difference.days) or is_not_hash(difference.history) or is_not_totals(difference.totals, difference.total_row) then
    return
  end
  local total = total_get(difference.totals, difference.total_row, entity.eid) or 0
  if total ~= difference.after then
    total_add(difference.totals, difference.total_row, entity.eid, string.format('%.0f', difference.after - total))
  end
  local days = days_sum(difference.days) + days_sum(difference.history)
  if days ~= difference.after then
    field_add(difference.history, corrected_field, string.format('%.0f', difference.after - days))
  end
end

local function correct(entity)
  if entity.state == '2' then
    redis.call('DEL', entity.key)
  end
  local deltas = {}
  for _, difference in ipairs(entity.differences) do
    deltas[#deltas + 1] = difference.idx
    deltas[#deltas + 1] = string.format('%.0f', difference.after - difference.before)
  end
  counter_add(entity.key, entity.row, entity.len, unpack(deltas))
  for _, difference in ipairs(entity.differences) do
    if difference.daily then
      correct_days(entity, difference)
    end
  end
end

local stale, has_more = is_stale()
if stale or has_more then
  return has_more and 2 or 0
end
for _, entity in ipairs(entities) do
  if not read(entity) then
    return 0
  end
end
audit_require_permission(KEYS[2], retain)
for _, entity in ipairs(entities) do
  check_permissions(entity)
end
for _, entity in ipairs(entities) do
  append(entity)
end
for _, entity in ipairs(entities) do
  correct(entity)
end
if #contents > 0 then
  announce(KEYS[3], retain_changes, contents)
end
return 1
