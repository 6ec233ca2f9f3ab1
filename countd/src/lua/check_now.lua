-- Compares counters with the numbers of facts, for counters that change with their facts, and with their totals and days, for counters with
-- counts by day. Corrects them in the same step.
--
-- KEYS: the log, the positions, the audit and the differences of a partition, the stream of changes if there is one, and of each entity
-- the counters, and of each metric the keys of its days (of those with counts by day: the Hash of days, that of archived days and the
-- totals) and of its source (sources.lua) if it has facts. ARGV: `correct`, `exact` or `report`, the thresholds (difference and percent),
-- the maximum length of the audit, the round, the source, the trace ID, the time, the field of archived days for corrections, the number
-- of entries that the stream of changes retains ('' without one); of each entity the row, length and minimum length of the counters, its
-- type and ID, the entry of the log by which the credit of its author follows ('' without one; an entry that ends with `[` lacks the
-- changes), the number of metrics, and of each idx, name, whether it has counts by day (1 or 0), the row of the total then ('' if it is
-- in a Hash), whether it has facts, and the source then. Reply: of each entity 1 if the table of its counters exists, 2 if the
-- correction has created it, or 0, and of each metric the counter before, what it must be, the largest difference of its numbers, and what
-- was found (drift.lua).
--
-- requires: HGET {position} 0
-- requires: XADD {log} 0-* f v
local mode, min_difference, percent, retain, round, source, trace, ts, corrected_field, retain_changes = unpack(ARGV, 1, 10)
local log, positions, audits, drift = unpack(KEYS, 1, 4)
local cursor = { at = 11, key = retain_changes == '' and 5 or 6 }
min_difference, percent = tonumber(min_difference), tonumber(percent)
local reply, changed, external = {}, {}, {}

local function next_argument(arguments)
  arguments.at = arguments.at + 1
  return ARGV[arguments.at - 1]
end

-- Whether events of a metric without facts were counted.
local function is_external(metric)
  if external[metric] == nil then
    external[metric] = redis.call('HGET', positions, 'external:' .. metric) and true or false
  end
  return external[metric]
end

-- What the counter must be, and whether that is ambiguous. Nil if it is unknown.
local function expected_of(metric, has_facts, facts, value)
  if has_facts then
    return facts and not is_external(metric.name) and facts or nil, false
  end
  return day_target(metric.days, value)
end

local function read_metric(entity)
  local metric = { idx = next_argument(cursor), name = next_argument(cursor), before = 0, expected = 0, difference = 0, found = UNCHECKED }
  if next_argument(cursor) == '1' then
    local keys = { unpack(KEYS, cursor.key, cursor.key + 2) }
    cursor.key = cursor.key + 3
    metric.days = read_day_numbers(keys, next_argument(cursor), entity.eid)
  end
  local has_facts = next_argument(cursor) == '1'
  local facts = has_facts and fact_card(read_card_source(cursor))
  local value = entity.is_usable and counter_get(entity.key, entity.row, metric.idx)
  local expected, is_ambiguous = expected_of(metric, has_facts, facts, value)
  if not entity.is_usable or not expected then
    return metric
  end
  local function corrects(delta)
    local above = is_above(delta, expected, min_difference, percent)
    metric.above = metric.above or above
    return mode == 'exact' or mode == 'correct' and above
  end
  metric.before, metric.expected, metric.is_ambiguous = value or 0, expected, is_ambiguous
  metric.delta = expected - metric.before
  metric.difference = math.abs(metric.delta)
  metric.corrects = metric.delta ~= 0 and corrects(metric.delta)
  if metric.days then
    compare_day_numbers(metric.days, expected, corrects)
    metric.difference = math.max(metric.difference, metric.days.difference)
    metric.corrects_days = mode ~= 'report' and metric.days.is_wrong
  end
  local is_equal = metric.difference == 0 and not (metric.days and metric.days.is_wrong)
  metric.found = is_equal and EQUAL or (metric.corrects or metric.corrects_days) and CORRECTED or DIFFERS
  return metric
end

local function read_entity()
  local entity = { key = KEYS[cursor.key], row = next_argument(cursor), metrics = {} }
  cursor.key = cursor.key + 1
  entity.len, entity.min_len = next_argument(cursor), tonumber(next_argument(cursor))
  entity.etype, entity.eid, entity.entry = next_argument(cursor), next_argument(cursor), next_argument(cursor)
  local mismatch, size = counter_mismatch(entity.key, entity.row, entity.min_len)
  entity.is_usable = not mismatch
  entity.has_table = entity.row ~= '' and (size or 0) > 0
  for m = 1, next_argument(cursor) do
    local metric = read_metric(entity)
    entity.metrics[m] = metric
    entity.is_corrected = entity.is_corrected or metric.found == CORRECTED
    entity.is_changed = entity.is_changed or metric.corrects
  end
  return entity
end

-- Appends the entry of the log. An entry without changes changes nothing.
local function append_entry(entity)
  local entry = entity.entry
  if entry == '' or not entity.is_changed then
    return
  end
  if entry:sub(-1) ~= '[' then
    redis.call('XADD', log, '0-*', 'a', entry)
    return
  end
  local changes = {}
  for _, metric in ipairs(entity.metrics) do
    if metric.corrects then
      changes[#changes + 1] = string.format('["%s",%.0f]', metric.name, metric.delta)
    end
  end
  redis.call('XADD', log, '0-*', 'j', entry .. table.concat(changes, ',') .. ']}')
end

local function audit_metric(entity, metric)
  local function add(before, after, own)
    local fields = {
      'row', entity.row, 'etype', entity.etype, 'eid', entity.eid, 'metric', metric.name, 'source', source, 'round', round,
      'traceId', trace, 'ts', ts, unpack(own),
    }
    if metric.is_ambiguous then
      fields[#fields + 1] = 'note'
      fields[#fields + 1] = 'ambiguous'
    end
    audit(audits, retain, before, after, fields)
  end
  if metric.corrects then
    add(metric.before, metric.expected, { 'key', entity.key, 'number', 'counter' })
  end
  if metric.corrects_days then
    for _, entry in ipairs(day_audit_entries(metric.days)) do
      add(unpack(entry))
    end
  end
end

local function correct_entity(entity)
  counter_require_permission(entity.key, entity.row)
  audit_require_permission(audits, retain)
  for _, metric in ipairs(entity.metrics) do
    if metric.corrects_days then
      day_numbers_require_permission(metric.days)
    end
  end
  -- Appends can fail, so they come first.
  append_entry(entity)
  for _, metric in ipairs(entity.metrics) do
    audit_metric(entity, metric)
    if metric.corrects then
      counter_add(entity.key, entity.row, entity.len, metric.idx, string.format('%.0f', metric.delta))
    end
    if metric.corrects_days then
      correct_day_numbers(metric.days, corrected_field)
    end
  end
  if not entity.is_changed then
    return
  end
  local name = entity.etype .. ':' .. entity.eid
  local last = changed[#changed]
  if last and #last + #name < MAX_CONTENT then
    changed[#changed] = last .. ';' .. name
  else
    changed[#changed + 1] = name
  end
end

if mode ~= 'report' then
  drift_require_permission(drift)
end
while cursor.at <= #ARGV do
  local entity = read_entity()
  if entity.is_corrected then
    correct_entity(entity)
  end
  local creates_table = entity.row ~= '' and not entity.has_table and entity.is_changed
  reply[#reply + 1] = entity.has_table and 1 or creates_table and 2 or 0
  for _, metric in ipairs(entity.metrics) do
    if mode ~= 'report' and metric.found ~= UNCHECKED then
      note_drift(drift, entity.etype .. ':' .. entity.eid .. ':' .. metric.name, metric.above, round)
    end
    reply[#reply + 1] = metric.before
    reply[#reply + 1] = metric.expected
    reply[#reply + 1] = metric.difference
    reply[#reply + 1] = metric.found
  end
end
if retain_changes ~= '' and #changed > 0 then
  announce(KEYS[5], retain_changes, changed)
end
return reply
