-- Appends the entry of a change of a counter to the log. An entry that ends with a comma is a journal entry that lacks the difference.
-- requires: XADD {log} 0-* f v
local function journal(log, entry, difference)
  if entry:sub(-1) == ',' then
    redis.call('XADD', log, '0-*', 'j', entry .. string.format('%.0f', difference) .. ']]}')
  else
    redis.call('XADD', log, '0-*', 'a', entry)
  end
end
