-- Corrects the lost counters of an entity, which are 0, by the facts that they count, under a lock.
--
-- KEYS and ARGV: those of `compare` (expected.lua), then KEYS: the lock, the audit and, if changes are announced, their stream; ARGV: the
-- token of the lock, the entry whose commit credits the author ('' if no field feeds the author; to a journal entry, which ends with `[`,
-- the script adds the changes), the maximum length of the audit, the number of entries that the stream of changes retains,
-- the content of its new entry ('' without the stream), the beginning of an entry that checks counters, 1 if the caller has recorded that
-- the table is lost or 0, then fields and values of the entries of the audit. Reply: the number of corrected fields, -1 if another process
-- has the lock, or -2 if the table is lost and that is not recorded; 1 if a whole table was lost, plus 2 if facts need a recount
-- (recount.lua); and the values of the fields; or the error of a key of another type.
local LOCK_MS = 5000
local cursor = { key = 1, at = 1 }
local state = compare(cursor)
local lock, audit_key, changes_key = unpack(KEYS, cursor.key, cursor.key + 2)
local token, entry, retain, retain_changes, change, check, is_recorded = unpack(ARGV, cursor.at, cursor.at + 6)
local details = { unpack(ARGV, cursor.at + 7) }

-- The number of wrong fields, whether the credit of the author follows, idx and delta of each increment, and the changes of the journal.
local wrong, follows, deltas, changes = 0, false, {}, {}
for _, field in ipairs(state.fields) do
  local difference = field.expected - field.before
  if difference ~= 0 then
    wrong = wrong + 1
    follows = follows or field.feeds
    changes[#changes + 1] = string.format('["%s",%.0f]', field.name, difference)
  end
  -- A damaged key is deleted, so all of its values are added again.
  local delta = state.damage == 'type' and field.expected or difference
  if delta ~= 0 then
    deltas[#deltas + 1] = field.idx
    deltas[#deltas + 1] = string.format('%.0f', delta)
  end
end

-- requires: GET {rebuild}
-- requires: SET {rebuild} x PX 1
local function acquire()
  local owner = redis.call('GET', lock)
  if owner and owner ~= token then
    return false
  end
  redis.call('SET', lock, token, 'PX', LOCK_MS)
  return true
end

-- Appends to the log and the audit, which can fail.
-- requires: XADD {log} 0-* f v
local function append()
  if entry:sub(-1) == '[' and #changes > 0 then
    redis.call('XADD', state.log, '0-*', 'j', entry .. table.concat(changes, ',') .. ']}')
  elseif follows and entry ~= '' and entry:sub(-1) ~= '[' then
    redis.call('XADD', state.log, '0-*', 'a', entry)
  end
  -- The consumer corrects the counters whose events wait in the log: their values would begin at 0.
  local checks = {}
  for _, field in ipairs(state.fields) do
    if field.is_batched and field.expected ~= field.shown then
      checks[#checks + 1] = string.format('["%s",%.0f]', field.name, field.shown)
    end
  end
  if #checks > 0 then
    redis.call('XADD', state.log, '0-*', 'c', check .. ',"checks":[' .. table.concat(checks, ',') .. ']}')
  end
  for _, field in ipairs(state.fields) do
    if field.expected ~= field.before or field.note then
      local fields = { 'metric', field.name, unpack(details) }
      if field.note then
        fields[#fields + 1] = 'note'
        fields[#fields + 1] = field.note
      end
      audit(audit_key, retain, field.before, field.expected, fields)
    end
  end
end

-- requires: DEL {counters}
-- requires: DEL {tables}
local function correct()
  if state.damage == 'type' then
    redis.call('DEL', state.key)
  end
  if #deltas == 0 then
    deltas = { 0, 0 }
  end
  counter_add(state.key, state.row, state.len, unpack(deltas))
  if changes_key then
    announce(changes_key, retain_changes, { change })
  end
end

local recount = state.is_large and 2 or 0
if state.is_refused then
  return counter_error('type')
end
if not state.damage and wrong == 0 then
  return { 0, recount, unpack(shown(state)) }
end
-- The record is in another slot. Without it, nothing would tell that the table, which would exist then, has lost its other rows.
if state.is_table_lost and is_recorded == '0' then
  return { -2, recount, unpack(shown(state)) }
end
counter_require_permission(state.key, state.row)
audit_require_permission(audit_key, retain)
require_permission('DEL', state.key)
require_permission('DEL', lock)
if not acquire() then
  return { -1, recount, unpack(shown(state)) }
end
append()
correct()
-- requires: DEL {rebuild}
redis.call('DEL', lock)
return { wrong, recount + (state.is_table_lost and 1 or 0), unpack(shown(state)) }
