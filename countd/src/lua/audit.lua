-- The audit: a stream with an entry for each correction of a counter. A correction appends before it changes the counter, since an append
-- can fail.

local function audit_require_permission(key, retain)
  require_permission('XADD', key, 'MAXLEN', '~', retain, '*', 'f', 'v')
end

-- The fields and values of an entry: the counter before and after, then those of the list `fields`.
local function audit_entry(before, after, fields)
  return 'before', string.format('%.0f', before), 'after', string.format('%.0f', after), 'difference',
    string.format('%.0f', after - before), unpack(fields)
end

-- Appends an entry.
-- requires: XADD {audit} MAXLEN ~ 1 * f v
local function audit(key, retain, before, after, fields)
  redis.call('XADD', key, 'MAXLEN', '~', retain, '*', audit_entry(before, after, fields))
end
