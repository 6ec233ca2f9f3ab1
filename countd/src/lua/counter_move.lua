
-- The maximum number of counters of an object that countd creates: MAX_NAMES in domain/error/schema.rs.
local MAX_COUNTERS = 1000

-- Moves the counters of an object to a row. Does nothing if the object does not exist. Returns `type` or `short`, and moves nothing, if
-- countd did not create the object, or the other key is not a table. Otherwise returns nil, and if it has moved the counters, how many the
-- row had before.
-- requires: CINT.LEN {counters}
-- requires: CINT.DUMP {counters}
-- requires: DEL {counters}
local function counter_move(object, table_key, id, min_len)
  local mismatch = counter_mismatch(object, '', tonumber(min_len))
  local len = mismatch and 0 or redis.call('CINT.LEN', object)
  if mismatch or len == 0 then
    return mismatch, nil
  end
  if len > MAX_COUNTERS then
    return 'type'
  end
  local rows = table_rows(table_key, { id })
  if not rows then
    return 'type'
  end
  require_permission('DEL', object)
  require_permission('CTAB.SET', table_key, 0, 'LEN', 1, 0, 0)
  counter_require_permission(table_key, id)
  local counters, values, row = redis.call('CINT.DUMP', object), {}, rows[1]
  for i, value in ipairs(counters) do
    values[2 * i - 1], values[2 * i] = i - 1, value
  end
  -- A row exists only if a process that was stopped for longer than the grace period has created the object again.
  if row then
    counter_add(table_key, id, len, unpack(values))
  else
    table_set(table_key, id, len, values)
  end
  redis.call('DEL', object)
  return nil, row and #row or 0
end
