#!lua
-- KEYS: logs. ARGV: for each of them how many entries, and field and payload of each.
local at = 1
for k = 1, #KEYS do
  local count = tonumber(ARGV[at])
  at = at + 1
  for _ = 1, count do
    redis.call('XADD', KEYS[k], '0-*', ARGV[at], ARGV[at + 1])
    at = at + 2
  end
end
