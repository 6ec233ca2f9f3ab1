-- Compares counters of users with the numbers of facts that are kept for them, which change in the same steps, and corrects the counters.
--
-- A fact that is missing in a timeline must not lower a right counter. So a difference is noted first, with the number of the last transposition
-- sweep that has begun. It is corrected if it is the same after a later sweep has ended: that sweep has compared all facts with the timelines.
--
-- KEYS: the phases of the slot, the notes (a Hash), the audit, the stream of changes if they are announced, and of each user the counters
-- and the keys of the sources (sources.lua). ARGV: `table` or `object`, how the counters are stored; `correct`, `exact` or `report`; the thresholds (difference and
-- percent); the maximum length of the audit; the time; the number of entries that the stream of changes retains, '' without one; the source, the round and
-- the trace ID of corrections; the sweeps that have begun and that have ended; length and minimum length of objects; the maximum number of notes; the
-- number of counters, and idx and name of each; and of each user the id, the row, and the source of each counter. Reply: nil if the counters
-- cannot be compared now. Otherwise of each counter the value before, the number of facts, what was found (drift.lua), and 1 if a difference
-- waits for a sweep (WAITS), or 2 if it must be noted first, and there is no room (NO_ROOM).
--
-- requires: HGET {phases} f
local storage, mode, min_difference, percent, retain, now, retain_changes, source, round, trace = unpack(ARGV, 1, 10)
local begun, ended, len, min_len = tonumber(ARGV[11]), tonumber(ARGV[12]), ARGV[13], tonumber(ARGV[14])
local notes, audits, changes = KEYS[2], KEYS[3], retain_changes ~= '' and KEYS[4] or nil
min_difference, percent = tonumber(min_difference), tonumber(percent)
local phase = redis.call('HGET', KEYS[1], 'user')
if phase and not (phase == 'table' and storage == 'table') then
  return false
end
local max_notes = tonumber(ARGV[15])
local counters, cursor = {}, { at = 17, key = changes and 5 or 4 }
for c = 1, tonumber(ARGV[16]) do
  counters[c] = { idx = ARGV[cursor.at], name = ARGV[cursor.at + 1] }
  cursor.at = cursor.at + 2
end

local WAITS, NO_ROOM = 1, 2

-- Whether a difference was noted before a sweep began that has ended. Notes it otherwise. Returns also what it waits for.
-- requires: HGET {user_notes} f
-- requires: HSET {user_notes} f v
-- requires: HLEN {user_notes}
local function is_settled(field, difference)
  local noted, sweep = (redis.call('HGET', notes, field) or ''):match('^(-?%d+)/(%d+)$')
  sweep = tonumber(sweep)
  if noted == difference and sweep <= begun then
    return ended > sweep, WAITS
  end
  if noted or redis.call('HLEN', notes) < max_notes then
    redis.call('HSET', notes, field, difference .. '/' .. begun)
    return false, WAITS
  end
  return false, NO_ROOM
end

local function correct(user, counter, before, facts)
  counter_require_permission(user.key, user.row)
  audit(audits, retain, before, facts, {
    'key', user.key, 'row', user.row, 'etype', 'user', 'eid', user.uid, 'metric', counter.name, 'source', source,
    'round', round, 'traceId', trace, 'ts', now,
  })
  counter_add(user.key, user.row, len, counter.idx, string.format('%.0f', facts - before))
  user.is_corrected = true
end

-- requires: HDEL {user_notes} f
local function compare_counter(user, counter, facts)
  local before = counter_get(user.key, user.row, counter.idx) or 0
  local difference, field = facts - before, user.uid .. ':' .. counter.name
  local corrects = difference ~= 0 and (mode == 'exact' or is_above(difference, facts, min_difference, percent))
  if mode == 'report' then
    return before, difference == 0 and EQUAL or DIFFERS, corrects and WAITS or 0
  elseif not corrects then
    redis.call('HDEL', notes, field)
    return before, difference == 0 and EQUAL or DIFFERS, 0
  end
  local settled, waits = is_settled(field, string.format('%.0f', difference))
  if not settled then
    return before, DIFFERS, waits
  end
  correct(user, counter, before, facts)
  redis.call('HDEL', notes, field)
  return before, CORRECTED, 0
end

audit_require_permission(audits, retain)
require_permission('HSET', notes, 'f', 'v')
require_permission('HDEL', notes, 'f')
local reply, corrected = {}, {}
while cursor.at <= #ARGV do
  local user = { key = KEYS[cursor.key], uid = ARGV[cursor.at], row = ARGV[cursor.at + 1] }
  cursor.at, cursor.key = cursor.at + 2, cursor.key + 1
  local is_usable = not counter_mismatch(user.key, user.row, min_len)
  for _, counter in ipairs(counters) do
    local facts = fact_card(read_card_source(cursor))
    local before, found, waits = 0, UNCHECKED, 0
    if facts and is_usable then
      before, found, waits = compare_counter(user, counter, facts)
    end
    for _, value in ipairs({ before, facts or 0, found, waits }) do
      reply[#reply + 1] = value
    end
  end
  if user.is_corrected then
    corrected[#corrected + 1] = user
  end
end
if changes and #corrected > 0 then
  local contents = {}
  add_users(contents, corrected)
  announce(changes, retain_changes, contents)
end
return reply
