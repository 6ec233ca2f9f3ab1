-- Decides, while a migration moves the counters of a type, whether they are in an object or in a row. The rest of the script, which knows
-- one place of the counters, follows. Once its slot has a phase, the object is moved first.
--
-- The last two KEYS: the table, and the phases of the slot. The last four arguments: the place of the object in KEYS, the place of the
-- row in ARGV, the minimum length of the object, and the type. A command has the row after the word ROW, and the key before it.
--
-- requires: HGET {phases} f
local function settle_counters()
  local last, keys = #ARGV, #KEYS
  local key_at, row_at, min_len, field = tonumber(ARGV[last - 3]), tonumber(ARGV[last - 2]), ARGV[last - 1], ARGV[last]
  local table_key, phases = KEYS[keys - 1], KEYS[keys]
  for i = last, last - 3, -1 do
    ARGV[i] = nil
  end
  KEYS[keys], KEYS[keys - 1] = nil, nil
  local is_command = ARGV[row_at - 1] == 'ROW'
  if redis.call('HGET', phases, field) then
    local mismatch = counter_move(KEYS[key_at], table_key, ARGV[row_at], min_len)
    if mismatch then
      return counter_error(mismatch)
    end
    KEYS[key_at] = table_key
    if is_command then
      ARGV[row_at - 2] = table_key
    end
  elseif is_command then
    table.remove(ARGV, row_at)
    table.remove(ARGV, row_at - 1)
  else
    ARGV[row_at] = ''
  end
  return nil
end
local refusal = settle_counters()
if refusal then
  return refusal
end
