-- Deletes counters that a restore finds to be erased.
--
-- KEYS: where the counters may be. ARGV: the row of each ('' for an object).
for k, key in ipairs(KEYS) do
  if counter_mismatch(key, ARGV[k], 0) then
    return counter_error('type')
  end
  counter_delete_require_permission(key, ARGV[k])
end
for k, key in ipairs(KEYS) do
  counter_delete(key, ARGV[k])
end
