-- Counts a batch and moves the position behind it: all of it, or nothing.
--
-- KEYS: position, dead letters, outbox, then counters, then what is remembered of envelopes. ARGV: where the position is
-- believed to be and where it goes, the partition, the time; for how many seconds envelopes are remembered, how many of them
-- there are; how many fences, and source and fence of each; how many dead entries, and reason, kind, payload and
-- offset of each; how many entries of the outbox, and partition and content of each; then for each of the counters its
-- length, how many words follow, and these: idx and delta of each field.
--
-- Replies {0} if the position is elsewhere, {2, i, ...} if these counters (0 is the first) are of another type, {3, i, ...} if
-- these envelopes (0 is the first) were counted before: nothing happened. Else {1}.

local function kind(key)
  return redis.call('TYPE', key).ok
end

if (redis.call('HGET', KEYS[1], 'next') or '1') ~= ARGV[1] then
  return { 0 }
end
-- The counters are from 4 to here, the envelopes behind.
local last = #KEYS - tonumber(ARGV[6])
local seen = { 3 }
for k = last + 1, #KEYS do
  if redis.call('EXISTS', KEYS[k]) == 1 then
    seen[#seen + 1] = k - last - 1
  end
end
if #seen > 1 then
  return seen
end
local refused = { 2 }
for k = 4, last do
  if not counter_fits(KEYS[k]) then
    refused[#refused + 1] = k - 4
  end
end
if #refused > 1 then
  return refused
end
for k = 2, 3 do
  local found = kind(KEYS[k])
  if found ~= 'none' and found ~= 'stream' then
    return redis.error_reply('WRONGTYPE the dead letters or the outbox are no stream')
  end
end

-- From here on nothing can fail: a script is not rolled back.
local at = 7
local function words()
  local count = tonumber(ARGV[at])
  at = at + 1
  return count
end

redis.call('HSET', KEYS[1], 'next', ARGV[2])
for _ = 1, words() do
  redis.call('HSET', KEYS[1], 'f' .. ARGV[at], ARGV[at + 1])
  at = at + 2
end
for _ = 1, words() do
  redis.call('XADD', KEYS[2], '*', 'reason', ARGV[at], 'kind', ARGV[at + 1], 'payload', ARGV[at + 2], 'partition',
    ARGV[3], 'offset', ARGV[at + 3], 'ts', ARGV[4])
  at = at + 4
end
for _ = 1, words() do
  redis.call('XADD', KEYS[3], '0-*', 'to', ARGV[at], 'adds', ARGV[at + 1])
  at = at + 2
end
for k = 4, last do
  local len = ARGV[at]
  at = at + 1
  local count = words()
  counter_add(KEYS[k], len, unpack(ARGV, at, at + count - 1))
  at = at + count
end
for k = last + 1, #KEYS do
  redis.call('SET', KEYS[k], 1, 'EX', ARGV[5])
end
return { 1 }
