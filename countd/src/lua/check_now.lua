-- Compares counters that change with their facts with the numbers of facts, and corrects them, in one step.
--
-- KEYS: the log, the positions, the audit and the differences of a partition, the stream of changes if there is one, and of each entity
-- the counters and the keys of the sources (sources.lua). ARGV: `correct`, `exact` or `report`, the thresholds (difference and percent),
-- the maximum length of the audit, the round, the source, the trace ID, the time, the number of entries that the stream of changes
-- retains ('' without one); of each entity the row, length and minimum length of the counters, its type and ID, the entry of the log by
-- which the credit of its author follows ('' without one), the number of metrics, and of each idx, name and source. Reply: of each metric
-- the counter before, the number of facts, and what was found (drift.lua).
--
-- requires: HGET {position} 0
-- requires: XADD {log} 0-* f v
local mode, min_difference, percent, retain, round, source, trace, ts, retain_changes = unpack(ARGV, 1, 9)
local log, positions, audits, drift = unpack(KEYS, 1, 4)
local cursor = { at = 10, key = retain_changes == '' and 5 or 6 }
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

local function read_metric(entity)
  local metric = { idx = next_argument(cursor), name = next_argument(cursor), before = 0, expected = 0, found = UNCHECKED }
  local facts = fact_card(read_card_source(cursor))
  if facts and entity.is_usable and not is_external(metric.name) then
    metric.before, metric.expected = counter_get(entity.key, entity.row, metric.idx) or 0, facts
    metric.difference = facts - metric.before
    metric.above = is_above(metric.difference, facts, min_difference, percent)
    local corrects = metric.difference ~= 0 and (mode == 'exact' or mode == 'correct' and metric.above)
    metric.found = corrects and CORRECTED or metric.difference == 0 and EQUAL or DIFFERS
  end
  return metric
end

local function read_entity()
  local entity = { key = KEYS[cursor.key], row = next_argument(cursor), metrics = {} }
  cursor.key = cursor.key + 1
  entity.len, entity.min_len = next_argument(cursor), tonumber(next_argument(cursor))
  entity.etype, entity.eid, entity.entry = next_argument(cursor), next_argument(cursor), next_argument(cursor)
  entity.is_usable = not counter_mismatch(entity.key, entity.row, entity.min_len)
  for m = 1, next_argument(cursor) do
    entity.metrics[m] = read_metric(entity)
    entity.is_corrected = entity.is_corrected or entity.metrics[m].found == CORRECTED
  end
  return entity
end

local function correct_entity(entity)
  counter_require_permission(entity.key, entity.row)
  audit_require_permission(audits, retain)
  -- Appends can fail, so they come first. An entry of the log without a change changes nothing.
  if entity.entry ~= '' then
    redis.call('XADD', log, '0-*', 'a', entity.entry)
  end
  for _, metric in ipairs(entity.metrics) do
    if metric.found == CORRECTED then
      audit(audits, retain, metric.before, metric.expected, {
        'key', entity.key, 'row', entity.row, 'etype', entity.etype, 'eid', entity.eid, 'metric', metric.name, 'source', source,
        'round', round, 'traceId', trace, 'ts', ts,
      })
      counter_add(entity.key, entity.row, entity.len, metric.idx, string.format('%.0f', metric.difference))
    end
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
  for _, metric in ipairs(entity.metrics) do
    if mode ~= 'report' and metric.found ~= UNCHECKED then
      note_drift(drift, entity.etype .. ':' .. entity.eid .. ':' .. metric.name, metric.above, round)
    end
    reply[#reply + 1] = metric.before
    reply[#reply + 1] = metric.expected
    reply[#reply + 1] = metric.found
  end
end
if retain_changes ~= '' and #changed > 0 then
  announce(KEYS[5], retain_changes, changed)
end
return reply
