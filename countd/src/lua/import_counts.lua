-- Applies counts of an import to counters of a partition, exactly once.
--
-- A part of a file has a sequence number: it is applied if the last applied number of the partition is smaller. Items of a live source
-- have no fixed parts: an item is applied if its entity is not yet in the ids of the import. The number of a finished import is the
-- greatest, so that a delayed call of it changes nothing.
--
-- KEYS: the state of the import in the partition, then (live sources only) the numeric ids of the import and the others (a Set), then
-- the counters, then for counters with counts by day the Hashes of archived days and the totals, and optionally the log. ARGV: the
-- partition, the sequence number ('' for live sources), `add` or `set`, the field of archived days for what was imported, the number of
-- items, the place of the log in KEYS ('' without it), and of each item: the ID of the entity, whether it is numeric (1 or 0), the number of
-- its counters key (1 is the first), row, length and minimum length of the counters, its journal entry up to the changes ('' without the
-- log), the names of the counters separated by spaces, the number of counters, and of each idx, value, and the place of its Hash of
-- archived days in KEYS ('' without counts by day), which the totals follow. The row of the total is the ID, or '' in a Hash.
--
-- Reply: {1, n} if n items were applied. Otherwise nothing changed: {0} if the part was applied before, {2, i} if the counters of item i
-- (0 is the first) have another type, {3, i} if they are too short, {4, i, idx} if a counter would exceed its maximum.
--
-- requires: HGET {import_state} 0
-- requires: HSET {import_state} 0 1
-- requires: SISMEMBER {import_names} a
-- requires: SADD {import_names} a
-- requires: XADD {log} 0-* f v
-- requires: XDEL {log} 0-1

local MAX = 1099511627775
local partition, sequence, mode, imported, count, log_place = unpack(ARGV, 1, 6)
local is_live = sequence == ''
local first_counters = is_live and 3 or 1
if tonumber(redis.call('HGET', KEYS[1], partition) or 0) >= (is_live and 1 or tonumber(sequence)) then
  return { 0 }
end

-- The values of counters, by key, row and idx: before the call, and after the items so far.
local before, after = {}, {}
local ids, names, marked = {}, {}, {}
-- The changes of objects, and of tables: idx and delta, or row, idx and delta of each.
local lengths, objects, tables = {}, {}, {}
local checked, days = {}, {}
local at, applied, entries = 7, 0, {}
for item = 0, tonumber(count) - 1 do
  local id, is_numeric, number, row, len, min_len, entry, names_of_fields, fields_count = unpack(ARGV, at, at + 8)
  at = at + 9
  local skip = false
  if is_live then
    if marked[id] then
      skip = true
    elseif is_numeric == '1' then
      skip = ids_contain(KEYS[2], id)
    else
      skip = redis.call('SISMEMBER', KEYS[3], id) == 1
    end
  end
  if not skip then
    local key = KEYS[first_counters + tonumber(number)]
    local name = key .. '\n' .. (row == '' and 'o' or 't')
    if not checked[name] then
      local mismatch = counter_mismatch(key, row, tonumber(min_len))
      if mismatch then
        return { mismatch == 'short' and 3 or 2, item }
      end
      if row == '' then
        counter_require_permission(key, row)
      else
        table_require_permission(key)
      end
      checked[name] = true
    end
    lengths[key] = len
    local differences, next_name = {}, names_of_fields:gmatch('%S+')
    for field = 0, tonumber(fields_count) - 1 do
      local idx, value, day = ARGV[at + 3 * field], tonumber(ARGV[at + 3 * field + 1]), tonumber(ARGV[at + 3 * field + 2])
      local counter = name .. row .. '\n' .. idx
      if not before[counter] then
        before[counter] = { key, row, idx, counter_get(key, row, idx) or 0 }
        after[counter] = before[counter][4]
        if day then
          local total_row = KEYS[day + 1]:sub(1, 4) == 'tot:' and id or ''
          if is_not_hash(KEYS[day]) or is_not_totals(KEYS[day + 1], total_row) then
            return { 2, item }
          end
          days_require_permission(KEYS[day])
          totals_require_permission(KEYS[day + 1], total_row)
          days[counter] = { history = KEYS[day], totals = KEYS[day + 1], row = total_row, eid = id }
        end
      end
      local difference = mode == 'add' and value or value - after[counter]
      after[counter] = after[counter] + difference
      local name_of_field = next_name()
      if name_of_field and difference ~= 0 then
        differences[#differences + 1] = string.format('["%s",%.0f]', name_of_field, difference)
      end
      if after[counter] > MAX then
        return { 4, item, tonumber(idx) }
      end
    end
    if #differences > 0 then
      entries[#entries + 1] = entry .. table.concat(differences, ',') .. ']}'
    end
    applied = applied + 1
    if is_live then
      marked[id] = true
      if is_numeric == '1' then
        ids[#ids + 1] = id
      else
        names[#names + 1] = id
      end
    end
  end
  at = at + 3 * tonumber(fields_count)
end

require_permission('HSET', KEYS[1], partition, 1)
if #ids > 0 then
  ids_require_permission('add', KEYS[2])
end
if #names > 0 then
  require_permission('SADD', KEYS[3], 'a')
end
-- Appends can fail, so they come first. Earlier appends of the call are then deleted.
local log, added = KEYS[tonumber(log_place) or 0], {}
if #entries > 0 then
  require_permission('XDEL', log, '0-1')
end
for _, entry in ipairs(entries) do
  local added_id = redis.pcall('XADD', log, '0-*', 'j', entry)
  if type(added_id) == 'table' then
    for _, earlier in ipairs(added) do
      redis.call('XDEL', log, earlier)
    end
    return added_id
  end
  added[#added + 1] = added_id
end
for counter, of in pairs(before) do
  local key, row, idx, value = unpack(of)
  local delta = after[counter] - value
  if delta ~= 0 then
    local changes = row == '' and objects or tables
    changes[key] = changes[key] or {}
    local list = changes[key]
    if row ~= '' then
      list[#list + 1] = row
    end
    list[#list + 1] = idx
    list[#list + 1] = delta
    local of = days[counter]
    if of then
      delta = string.format('%.0f', delta)
      field_add(of.history, imported, delta)
      total_add(of.totals, of.row, of.eid, delta)
    end
  end
end
for key, changes in pairs(objects) do
  counter_add(key, '', lengths[key], unpack(changes))
end
for key, changes in pairs(tables) do
  table_add(key, lengths[key], changes, 1, #changes)
end
if not is_live then
  redis.call('HSET', KEYS[1], partition, sequence)
end
if #ids > 0 then
  ids_add(KEYS[2], ids)
end
if #names > 0 then
  redis.call('SADD', KEYS[3], unpack(names))
end
return { 1, applied }
