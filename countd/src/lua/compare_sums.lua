-- Compares received counters of users with the sums of credits (sums.lua), and corrects the counters.
--
-- KEYS: the state of the sums, the phases of the slot, the table and the Hash of the sums, the audit, the counters of each user, and the stream of changes if they are announced.
-- ARGV: the sweep; `table` or `object`, how the counters are stored; the minimum difference and the minimum percentage of a correction; the number of
-- entries that the audit retains; the time; the number of entries that the stream of changes retains, '' if changes are not announced; 1 to change
-- nothing; length and minimum length of objects; the number of counters, and idx and name of each; and of each user the id and the row.
-- Reply: nil if sums and counters cannot be compared now. Otherwise the number of counters that were compared, and of each difference
-- the user, the counter, the difference and 1 if it was corrected. A slot in a later stage was compared before the sweep was interrupted, or
-- the sweep was given up: nothing is compared there.
--
-- requires: HGET {phases} f
-- requires: HMGET {sums} f
-- During an adoption, sums are in Hashes for some processes and in tables for others.
if IS_MIXED then
  return false
end
local sweep, stage = sums_state(KEYS[1])
local storage, min_difference, min_percent = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local retain, now, retain_changes, is_dry = ARGV[5], ARGV[6], ARGV[7], ARGV[8] == '1'
local len, min_len, at = tonumber(ARGV[9]), tonumber(ARGV[10]), 12
local phase = redis.call('HGET', KEYS[2], 'user')
local is_settled = not phase or phase == 'table' and storage == 'table'
if sweep == tonumber(ARGV[1]) and stage > 3 then
  return { 0 }
end
if sweep ~= tonumber(ARGV[1]) or stage ~= 3 or not is_settled or redis.call('HMGET', KEYS[1], 'damaged')[1] == ARGV[1] then
  return false
end
local counters = {}
for c = 1, tonumber(ARGV[11]) do
  counters[c] = { idx = ARGV[at], name = ARGV[at + 1] }
  at = at + 2
end
local users = {}
for k = 6, #KEYS - (retain_changes ~= '' and 1 or 0) do
  local user = { key = KEYS[k], uid = ARGV[at], row = ARGV[at + 1] }
  -- A damaged object cannot be corrected.
  if not counter_mismatch(user.key, user.row, min_len) then
    users[#users + 1] = user
  end
  at = at + 2
end

-- The sums of a user: of each counter a number.
-- requires: HMGET {sums} f
local function sums_of(user)
  local found = {}
  if table_rows and is_number(user.uid) then
    local row = (table_rows(KEYS[3], { user.uid }) or error(counter_error('type')))[1]
    for c, counter in ipairs(counters) do
      found[c] = row and row[counter.idx + 1] or 0
    end
    return found
  end
  for c, counter in ipairs(counters) do
    found[c] = tonumber(redis.call('HMGET', KEYS[4], user.uid .. ':' .. counter.idx)[1]) or 0
  end
  return found
end

audit_require_permission(KEYS[5], retain)
local permitted, reply, corrected = {}, { 0 }, {}
for _, user in ipairs(users) do
  local is_row, right = user.row ~= '', sums_of(user)
  if not permitted[is_row] then
    permitted[is_row] = true
    counter_require_permission(user.key, user.row)
  end
  for c, counter in ipairs(counters) do
    local value = counter_get(user.key, user.row, counter.idx) or 0
    local difference = math.max(0, right[c]) - value
    local size = math.abs(difference)
    reply[1] = reply[1] + 1
    if difference ~= 0 then
      local is_corrected = not is_dry and (size > min_difference or size * 100 > min_percent * math.max(right[c], 1))
      if is_corrected then
        audit(KEYS[5], retain, value, value + difference, { 'key', user.key, 'row', user.row, 'etype', 'user', 'eid', user.uid,
          'metric', counter.name, 'source', 'credits', 'round', ARGV[1], 'traceId', 'sweep-' .. ARGV[1], 'ts', now })
        counter_add(user.key, user.row, len, counter.idx, string.format('%.0f', difference))
        if corrected[#corrected] ~= user then
          corrected[#corrected + 1] = user
        end
      end
      for _, value_of_reply in ipairs({ user.uid, counter.name, difference, is_corrected and 1 or 0 }) do
        reply[#reply + 1] = value_of_reply
      end
    end
  end
end
if retain_changes ~= '' and #corrected > 0 then
  local contents = {}
  add_users(contents, corrected)
  announce(KEYS[#KEYS], retain_changes, contents)
end
return reply
