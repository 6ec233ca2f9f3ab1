-- The section of a commit that checks counters (sections.lua).
--
-- A log entry with a check has the number of facts as of its offset. The counter is right if it equals that number when the events before
-- the entry are counted: its stored value and what the batch adds before the entry, which the consumer knows. A correction adds the
-- difference. It is made before the batch increments counters, so it commutes with everything that is counted later.
--
-- A counter with counts by day has a total and days, which change in the same steps: they are right if they equal the same number, and
-- the same step corrects them.
--
-- Arguments: the number of metrics of which the batch counts events without facts, and their names; the number of checks. If there are
-- any: the maximum length of the audit, the thresholds (difference and percent), the time, and the field of archived days for
-- corrections; of each check the row, length, minimum length and idx of the counter, type and ID of the entity, the metric, what the
-- batch adds before the entry, the number of facts, `correct`, `exact` or `report`, the round, the source, the trace ID, 1 if there is a
-- report or 0, 1 if there are counts by day or 0, and the row of the total ('' if it is in a Hash). Keys: of each check the counters, the
-- audit, the differences, then the report, and the Hash of days, that of archived days and the totals, if there are any.
--
-- Adds to the reply: the number of checks, and of each the largest absolute difference and what was found (drift.lua).

-- The time for which a report is kept, in seconds.
local REPORT_SECONDS = 3600
-- The field of a Hash of positions that tells that events without facts were counted.
local EXTERNAL = 'external:'

-- The place of a counter in `corrections`, which credits of authors include.
local function place_of(check)
  return check.key .. '|' .. check.row .. '|' .. check.idx
end

-- What earlier checks of the batch add to the total and the days of a counter, by its place.
local day_corrections = {}

-- Reads the total and the days as they will be when the earlier checks of the batch have corrected them.
local function read_checked_days(check, row, keys)
  local place = place_of(check)
  local earlier = day_corrections[place]
  local days = earlier or read_day_numbers(keys, row, check.eid)
  if earlier then
    days = { hash = days.hash, history = days.history, totals = days.totals, row = row, eid = check.eid, damaged = {},
      total = (earlier.total or 0) + (earlier.deltas.total or 0), sum = earlier.sum + (earlier.deltas.days or 0) }
  end
  return days, place
end

-- Decides what is corrected. The total and the days lack what the batch adds before the entry, like the counter.
local function compare_check(check, state, days, place)
  local function corrects(delta)
    local above = is_above(delta, check.expected, state.min_difference, state.percent)
    check.above = check.above or above
    return check.mode == 'exact' or check.mode == 'correct' and above
  end
  check.corrects = check.difference ~= 0 and corrects(check.difference)
  check.largest = math.abs(check.difference)
  local is_equal = check.difference == 0
  if days then
    compare_day_numbers(days, check.expected - check.prefix, corrects)
    is_equal = is_equal and days.difference == 0 and not days.is_wrong
    check.largest = math.max(check.largest, days.difference)
    if check.mode ~= 'report' and days.is_wrong then
      check.days, day_corrections[place] = days, days
    end
  end
  check.found = is_equal and EQUAL or (check.corrects or check.days) and CORRECTED or DIFFERS
end

-- requires: HGET {position} 0
local function read_check(cursor, state, refuse)
  local check = { at = cursor.key, key = take_key(cursor), audit = take_key(cursor), drift = take_key(cursor) }
  check.row, check.len, check.min_len, check.idx = take(cursor), take(cursor), take_number(cursor), take(cursor)
  check.etype, check.eid, check.metric = take(cursor), take(cursor), take(cursor)
  check.prefix, check.expected, check.mode = take_number(cursor), take_number(cursor), take(cursor)
  check.round, check.source, check.trace = take(cursor), take(cursor), take(cursor)
  check.report = take(cursor) == '1' and take_key(cursor) or nil
  local is_daily, total_row, day_keys = take(cursor) == '1', take(cursor), nil
  if is_daily then
    day_keys = { take_key(cursor), take_key(cursor), take_key(cursor) }
  end
  local mismatch = counter_mismatch(check.key, check.row, check.min_len)
  if mismatch then
    refuse(check.at, mismatch)
    return check
  end
  -- An earlier check of the batch may correct the same counter.
  local corrected = corrections[place_of(check)] or 0
  check.before = (counter_get(check.key, check.row, check.idx) or 0) + corrected
  check.difference = check.expected - check.before - check.prefix
  if state.external[check.metric] or redis.call('HGET', KEYS[1], EXTERNAL .. check.metric) then
    check.found, check.difference, check.largest = UNCHECKED, 0, 0
    return check
  end
  local days, place
  if is_daily then
    days, place = read_checked_days(check, total_row, day_keys)
  end
  compare_check(check, state, days, place)
  if check.corrects then
    corrections[place_of(check)] = corrected + check.difference
  end
  return check
end

local function checks_require_permission(check)
  counter_require_permission(check.key, check.row)
  audit_require_permission(check.audit, 1)
  require_permission('XDEL', check.audit, '0-1')
  drift_require_permission(check.drift)
  if check.days then
    day_numbers_require_permission(check.days)
  end
  if check.report then
    require_permission('HSETNX', check.report, 'f', 1)
    require_permission('EXPIRE', check.report, 1)
  end
end

-- The first check of a counter is reported: a later one finds what the first one has corrected.
-- requires: HSETNX {report} f 1
-- requires: EXPIRE {report} 1
local function report_check(check)
  local counted = math.max(0, check.before + check.prefix)
  local value = string.format('%.0f %.0f %d %.0f', counted, check.expected, check.found, check.largest)
  redis.call('HSETNX', check.report, check.etype .. ':' .. check.eid .. ':' .. check.metric, value)
  redis.call('EXPIRE', check.report, REPORT_SECONDS)
end

local function finish_check(check, field)
  if check.corrects then
    counter_add(check.key, check.row, check.len, check.idx, string.format('%.0f', check.difference))
  end
  if check.days then
    correct_day_numbers(check.days, field)
  end
  if check.mode ~= 'report' and check.found ~= UNCHECKED then
    note_drift(check.drift, check.etype .. ':' .. check.eid .. ':' .. check.metric, check.above, check.round)
  end
  if check.report then
    report_check(check)
  end
end

local function read_checks(cursor, refuse)
  local state = { external = {}, checks = {} }
  for _ = 1, take_number(cursor) do
    state.external[take(cursor)] = true
  end
  local count = take_number(cursor)
  if count == 0 then
    return state
  end
  state.retain, state.min_difference, state.percent = take(cursor), take_number(cursor), take_number(cursor)
  state.ts, state.field = take(cursor), take(cursor)
  for i = 1, count do
    state.checks[i] = read_check(cursor, state, refuse)
    checks_require_permission(state.checks[i])
  end
  return state
end

local function append_audits(state, append)
  for _, check in ipairs(state.checks) do
    local function add(before, after, own)
      append(check.audit, 'MAXLEN', '~', state.retain, '*', audit_entry(before, after, {
        'row', check.row, 'etype', check.etype, 'eid', check.eid, 'metric', check.metric, 'source', check.source, 'round', check.round,
        'traceId', check.trace, 'ts', state.ts, unpack(own),
      }))
    end
    if check.corrects then
      add(check.before, check.before + check.difference, { 'key', check.key, 'number', 'counter' })
    end
    if check.days then
      for _, entry in ipairs(day_audit_entries(check.days)) do
        add(unpack(entry))
      end
    end
  end
end

-- requires: HSET {position} 0 1
local function write_checks(state)
  for metric in pairs(state.external) do
    redis.call('HSET', KEYS[1], EXTERNAL .. metric, 1)
  end
  for _, check in ipairs(state.checks) do
    finish_check(check, state.field)
  end
end

local function reply_checks(state, reply)
  reply[#reply + 1] = #state.checks
  for _, check in ipairs(state.checks) do
    reply[#reply + 1] = check.largest
    reply[#reply + 1] = check.found
  end
end

SECTIONS[#SECTIONS + 1] = {
  read = function(cursor, refuse)
    return read_checks(cursor, refuse)
  end,
  append = function(state, append)
    append_audits(state, append)
  end,
  before = function(state)
    write_checks(state)
  end,
  after = function(state, reply)
    reply_checks(state, reply)
  end,
}
