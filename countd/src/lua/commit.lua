-- Counts a batch and moves the positions of its partitions behind it: all of it, or nothing.
--
-- KEYS: positions, dead letters, outbox, then counters, then what is remembered of envelopes. ARGV: the time; for how many
-- seconds envelopes are remembered, how many of them there are; how many partitions, and of each its number, where its position
-- is believed to be and where it goes; how many fences, and field and value of each; for each of the counters its length, its
-- least length, how many words follow, and these: idx and delta of each field; how many dead entries, and reason, kind, payload,
-- partition, offset and length of each; how many entries of the outbox, and partition and content of each.
--
-- Replies {0, i, ...} if the positions of these partitions (0 is the first) are elsewhere, {2, i, ...} if these counters are of
-- another type, {4, i, ...} if they are too short, {3, i, ...} if these envelopes were counted before, and the error DEADLETTER if
-- the stream of dead letters is damaged: nothing happened. Else {1}.

-- The most words that go through Lua's stack at once.
local MANY = 1000

-- The counters are from 4 to here, the envelopes behind.
local last = #KEYS - tonumber(ARGV[3])

local at = 4
local function words()
  local count = tonumber(ARGV[at])
  at = at + 1
  return count
end

-- What the positions are, and what they become.
local partitions = words()
local asked, expected, moves, moved = {}, {}, {}, { 0 }
for i = 1, partitions do
  asked[i], expected[i] = ARGV[at], ARGV[at + 1]
  moves[2 * i - 1], moves[2 * i] = ARGV[at], ARGV[at + 2]
  at = at + 3
end
for from = 1, partitions, MANY do
  local to = math.min(from + MANY - 1, partitions)
  local found = redis.call('HMGET', KEYS[1], unpack(asked, from, to))
  for i = from, to do
    if (found[i - from + 1] or '1') ~= expected[i] then
      moved[#moved + 1] = i - 1
    end
  end
end
if #moved > 1 then
  return moved
end

local seen = { 3 }
for k = last + 1, #KEYS do
  if redis.call('EXISTS', KEYS[k]) == 1 then
    seen[#seen + 1] = k - last - 1
  end
end
if #seen > 1 then
  return seen
end

-- Where the fences are, then the counters, then the dead letters.
local fences = at
at = at + 1 + 2 * ARGV[at]
local counters = at
local refused, short = { 2 }, { 4 }
-- Asking for rights takes as long as using them. Keys that begin alike (`cnt:v1:n`, `ucnt:4`) have the same.
local ALIKE = 8
local asked_for = {}
for k = 4, last do
  local misfit = counter_misfit(KEYS[k], tonumber(ARGV[at + 1]))
  if misfit then
    local list = misfit == 'short' and short or refused
    list[#list + 1] = k - 4
  end
  local start = KEYS[k]:sub(1, ALIKE)
  if not asked_for[start] then
    asked_for[start] = true
    counter_need(KEYS[k])
  end
  at = at + 3 + ARGV[at + 2]
end
if #refused > 1 or #short > 1 then
  return #refused > 1 and refused or short
end

need('HSET', KEYS[1], '0', 1)
need('XDEL', KEYS[2], '0-1')
need('XDEL', KEYS[3], '0-1')
-- What is remembered begins alike, too.
if last < #KEYS then
  need('SET', KEYS[#KEYS], 1, 'EX', ARGV[2])
end

-- Streams may refuse what is appended, so they come first. What was appended is taken back then.
local added = {}
local function append(key, id, ...)
  local new = redis.pcall('XADD', key, id, ...)
  if type(new) == 'table' then
    for _, one in ipairs(added) do
      redis.call('XDEL', one[1], one[2])
    end
    if key == KEYS[2] and (new.err:find('^WRONGTYPE') or new.err:find('exhausted')) then
      return redis.error_reply('DEADLETTER ' .. new.err)
    end
    error(new)
  end
  added[#added + 1] = { key, new }
end
for _ = 1, words() do
  local refused = append(KEYS[2], '*', 'reason', ARGV[at], 'kind', ARGV[at + 1], 'payload', ARGV[at + 2], 'partition', ARGV[at + 3],
    'offset', ARGV[at + 4], 'bytes', ARGV[at + 5], 'ts', ARGV[1])
  if refused then
    return refused
  end
  at = at + 6
end
for _ = 1, words() do
  append(KEYS[3], '0-*', 'to', ARGV[at], 'adds', ARGV[at + 1])
  at = at + 2
end

-- From here on nothing can fail: a script is not rolled back.
for from = 1, 2 * partitions, MANY do
  redis.call('HSET', KEYS[1], unpack(moves, from, math.min(from + MANY - 1, 2 * partitions)))
end
at = fences
for _ = 1, words() do
  redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1])
  at = at + 2
end
at = counters
for k = 4, last do
  local len, count = ARGV[at], tonumber(ARGV[at + 2])
  at = at + 3
  counter_add(KEYS[k], len, unpack(ARGV, at, at + count - 1))
  at = at + count
end
for k = last + 1, #KEYS do
  redis.call('SET', KEYS[k], 1, 'EX', ARGV[2])
end
return { 1 }
