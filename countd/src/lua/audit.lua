-- The audit: a stream with an entry for each correction of a counter. A correction appends before it changes the counter, since an append
-- can fail.

local function audit_require_permission(key, retain)
  require_permission('XADD', key, 'MAXLEN', '~', retain, '*', 'f', 'v')
end

-- Appends an entry: the counter before and after, then the fields and values of the list `fields`.
-- requires: XADD {audit} MAXLEN ~ 1 * f v
local function audit(key, retain, before, after, fields)
  redis.call('XADD', key, 'MAXLEN', '~', retain, '*', 'before', string.format('%.0f', before), 'after', string.format('%.0f', after),
    'difference', string.format('%.0f', after - before), unpack(fields))
end
