#!lua name=countint
--
-- CountInt for servers that cannot load modules: the same commands as functions. Counters are Strings of big-endian
-- 40-bit fields (u40 in BITFIELD), marks are plain Sets.
--
--   redis-cli -x FUNCTION LOAD REPLACE < countint.lua
--   redis-cli FCALL cint_incrby 1 post:1 0 5
--
-- On servers without functions (before 7.0), this file without its first line is a script for EVAL and EVALSHA. Its
-- first argument after the keys is the name of the function:
--
--   sha=$(tail -n +2 countint.lua | redis-cli -x SCRIPT LOAD)
--   redis-cli EVALSHA "$sha" 1 post:1 cint_incrby 0 5
--
-- A script cannot be rolled back, so every function validates everything before its first write, and a write that can
-- fail comes first. A call that changes nothing does not write. docs/fallback.md lists the differences from the module.

-- The number of fields of an object that is created without LEN (countint.default-len in the module). With 0, creating
-- an object without LEN is an error.
local DEFAULT_LEN = 5

local FIELD_MAX = 2 ^ 40 - 1 -- sums stay below 2^53, the limit of exact integers in Lua
local FIELD_BYTES = 5
local MAX_LEN = 65535
local MAX_REPLY = 512 * 1024 * 1024
local OFFSET_MAX = FIELD_MAX - 1
-- Lua passes at most about 8,000 arguments to a command.
local MAX_OPERATIONS = 1000
local MAX_WORDS = 7000

local NOT_AN_INTEGER = 'ERR value is not an integer or out of range'
local BAD_LENGTH = 'ERR length must be between 1 and 65535'
local BAD_INDEX = 'ERR index out of range'
local OVERFLOW = 'ERR increment would overflow'
local EXISTS = 'ERR key already exists'
local NO_SUCH_KEY = 'ERR no such key'
local SYNTAX = 'ERR syntax error'
local PAYLOAD = 'ERR invalid payload'
local NOT_ZERO = 'ERR field is not zero'
local NO_COUNTER = 'NOCOUNTER the counter is 0 although the set has members'
local SAME_KEYS = 'ERR keys must differ'
local TOO_LONG = 'ERR string exceeds maximum allowed size (512MB)'
local TOO_MANY_FIELDS = 'ERR too many fields'
local NOT_PERMITTED = 'NOPERM this user has no permissions to run a command that the function needs'
local NO_FUNCTION = 'ERR Function not found'

-- ---- errors and commands -------------------------------------------------------------------------------------------

-- The error of the current call. It is a variable because servers differ in how pcall returns a thrown table.
local failure

local function fail(message)
  failure = message
  error(message, 0)
end

-- Runs a command. An error reply of the server becomes the reply of the function.
local function run(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    fail(reply.err)
  end
  return reply
end

-- Checks, before the first of several writes, that the user has permission for a later one. Redis 6 has no such check.
local function permitted(...)
  if redis.acl_check_cmd and not redis.acl_check_cmd(...) then
    fail(NOT_PERMITTED)
  end
end

-- ---- arguments -----------------------------------------------------------------------------------------------------

-- Parses a canonical decimal in the range of a signed 64-bit integer. Above 2^53 the result is rounded, which is
-- precise enough, because such numbers are only compared with smaller bounds.
local function integer(text)
  if text == '0' then
    return 0
  end
  local sign, digits = text:match('^(%-?)([1-9]%d*)$')
  if not digits or #digits > 19 then
    fail(NOT_AN_INTEGER)
  end
  if #digits == 19 then
    local high, low = tonumber(digits:sub(1, 9)), tonumber(digits:sub(10))
    local low_max = sign == '-' and 6854775808 or 6854775807
    if high > 922337203 or (high == 922337203 and low > low_max) then
      fail(NOT_AN_INTEGER)
    end
  end
  return tonumber(text)
end

local function unsigned(text, max)
  local number = integer(text)
  if number < 0 or number > max then
    fail(NOT_AN_INTEGER)
  end
  return number
end

-- Parses an index. A negative one becomes infinity, which fails the later range check.
local function index(text)
  local number = integer(text)
  return number < 0 and math.huge or number
end

local function length(text)
  local number = integer(text)
  if number < 1 or number > MAX_LEN then
    fail(BAD_LENGTH)
  end
  return number
end

local function is(text, word)
  return text ~= nil and text:upper() == word
end

local function wrong_arity(command)
  fail("ERR wrong number of arguments for '" .. command .. "' command")
end

-- Parses `[LEN n] [OVERFLOW SAT|FAIL]`, in any order, from argument `at` on. Returns the text after LEN, whether an
-- overflow fails, and the position after the options. Numbers are parsed later, after all syntax checks.
local function options(args, at, takes_overflow)
  local len, overflow
  while at <= #args and args[at]:find('^%a') do
    local value = args[at + 1]
    if is(args[at], 'LEN') then
      if len or not value then
        fail(SYNTAX)
      end
      len = value
    elseif takes_overflow and is(args[at], 'OVERFLOW') then
      if overflow or not (is(value, 'SAT') or is(value, 'FAIL')) then
        fail(SYNTAX)
      end
      overflow = value:upper()
    else
      break
    end
    at = at + 2
  end
  return len, overflow == 'FAIL', at
end

-- Parses pairs of arguments from `at` on: an index, and a number that `read` parses.
local function pairs_from(args, at, read)
  local list = {}
  for i = at, #args, 2 do
    list[#list + 1] = { idx = index(args[i]), number = read(args[i + 1]) }
  end
  return list
end

local function check_pairs(command, args, at)
  local rest = #args - at + 1
  if rest == 0 or rest % 2 ~= 0 then
    wrong_arity(command)
  end
end

local function counter_value(text)
  return unsigned(text, FIELD_MAX)
end

-- ---- objects -------------------------------------------------------------------------------------------------------

-- The number of fields of the object at a key; nil if the key does not exist.
local function fields_of(key)
  local bytes = run('STRLEN', key)
  if bytes == 0 and run('EXISTS', key) == 0 then
    return nil
  end
  if bytes == 0 or bytes % FIELD_BYTES ~= 0 or bytes > MAX_LEN * FIELD_BYTES then
    fail(PAYLOAD)
  end
  return bytes / FIELD_BYTES
end

-- Field `at` of a String; 0 past its end.
local function field(bytes, at)
  local a, b, c, d, e = bytes:byte(at * FIELD_BYTES + 1, (at + 1) * FIELD_BYTES)
  return a and (((a * 256 + b) * 256 + c) * 256 + d) * 256 + e or 0
end

local function all_fields(key, len)
  local bytes, values = run('GET', key), {}
  for at = 0, len - 1 do
    values[at + 1] = field(bytes, at)
  end
  return values
end

-- The values, by index, of the fields in a list of pairs. Reads the smallest range that contains all of them.
local function named_fields(key, list)
  local first, last = math.huge, 0
  for _, pair in ipairs(list) do
    first, last = math.min(first, pair.idx), math.max(last, pair.idx)
  end
  local bytes, values = run('GETRANGE', key, first * FIELD_BYTES, (last + 1) * FIELD_BYTES - 1), {}
  for _, pair in ipairs(list) do
    values[pair.idx] = field(bytes, pair.idx - first)
  end
  return values
end

-- The target of a write to an object of `now` fields (nil if missing): its length after the write, whether it is
-- created or grows, and whether it exists.
local function target_of(key, now, len)
  local required = len or (not now and DEFAULT_LEN > 0 and DEFAULT_LEN)
  if not now and not required then
    fail(NO_SUCH_KEY)
  end
  local grows = not now or (required and required > now) or false
  return { key = key, len = grows and required or now, grows = grows, exists = now ~= nil }
end

local function check_indexes(list, len)
  for _, pair in ipairs(list) do
    if pair.idx >= len then
      fail(BAD_INDEX)
    end
  end
end

-- Writes fields and grows the object to `target.len`. `values` has the values by index; `order` is a list of pairs that
-- contains every index.
local function store(target, order, values)
  local operations = {}
  local function set(idx, value)
    for _, word in ipairs({ 'SET', 'u40', '#' .. idx, string.format('%.0f', value) }) do
      operations[#operations + 1] = word
    end
    if #operations == 4 * MAX_OPERATIONS then
      run('BITFIELD', target.key, unpack(operations))
      operations = {}
    end
  end
  if target.grows then
    set(target.len - 1, 0) -- the last new field; a later SET may overwrite it
  end
  local stored = {}
  for _, pair in ipairs(order) do
    if not stored[pair.idx] then
      stored[pair.idx] = true
      set(pair.idx, values[pair.idx])
    end
  end
  if #operations > 0 then
    run('BITFIELD', target.key, unpack(operations))
  end
end

local function saturated(sum)
  return math.min(math.max(sum, 0), FIELD_MAX)
end

-- Applies increments to `values` in order. Returns the value after each. With `fail_on_overflow`, an overflow is an
-- error.
local function add(values, steps, fail_on_overflow)
  local after = {}
  for i, step in ipairs(steps) do
    local sum = values[step.idx] + step.number
    if fail_on_overflow and sum ~= saturated(sum) then
      fail(OVERFLOW)
    end
    values[step.idx] = saturated(sum)
    after[i] = values[step.idx]
  end
  return after
end

local function differ(before, after)
  for idx, value in pairs(before) do
    if after[idx] ~= value then
      return true
    end
  end
  return false
end

local function copy(values)
  local result = {}
  for idx, value in pairs(values) do
    result[idx] = value
  end
  return result
end

-- Increments one field, saturating, and returns the new value. `old` is its current value; `delta` is a number or text.
local function increment(target, idx, old, delta)
  if not target.grows and saturated(old + delta) == old then
    return old
  end
  local operations = { 'OVERFLOW', 'SAT', 'INCRBY', 'u40', '#' .. idx, delta }
  if target.grows then
    operations = { 'SET', 'u40', '#' .. (target.len - 1), 0, unpack(operations) }
  end
  local replies = run('BITFIELD', target.key, unpack(operations))
  return replies[#replies]
end

-- ---- functions -----------------------------------------------------------------------------------------------------

-- For EVAL, by name: the module's command, the bounds of the numbers of keys and of arguments, and the code.
local functions = {}

local OK = { ok = 'OK' }
local MANY = 1 / 0
local ONE, ANY, NONE = { 1, 1 }, { 1, MANY }, { 0, 0 }

local function outside(number, bounds)
  return number < bounds[1] or number > bounds[2]
end

local function call(entry, keys, args)
  failure = nil
  local done, reply = pcall(function()
    if outside(#keys, entry.keys) or outside(#args, entry.args) then
      wrong_arity(entry.command)
    end
    return entry.code(keys, args)
  end)
  if done then
    return reply
  end
  return { err = failure or ('ERR internal error: ' .. tostring(reply)) }
end

local function define(flags, name, command, keys, args, code)
  local entry = { command = command, keys = keys, args = args, code = code }
  if not redis.register_function then
    functions[name] = entry
    return
  end
  redis.register_function({
    function_name = name,
    callback = function(called_keys, called_args)
      return call(entry, called_keys, called_args)
    end,
    flags = flags,
  })
end

local function reader(...)
  define({ 'no-writes' }, ...)
end

-- Without allow-oom: the server rejects these at maxmemory.
local function writer(...)
  define({}, ...)
end

reader('cint_get', 'cint.get', ONE, ONE, function(keys, args)
  local idx = index(args[1])
  local len = fields_of(keys[1])
  if idx >= (len or MAX_LEN) then
    fail(BAD_INDEX)
  end
  return len and named_fields(keys[1], { { idx = idx } })[idx] or false
end)

reader('cint_mget', 'cint.mget', ONE, ANY, function(keys, args)
  local list = {}
  for i, text in ipairs(args) do
    list[i] = { idx = index(text) }
  end
  local len = fields_of(keys[1])
  check_indexes(list, len or MAX_LEN)
  local values, replies = len and named_fields(keys[1], list) or {}, {}
  for i, pair in ipairs(list) do
    replies[i] = values[pair.idx] or false
  end
  return replies
end)

reader('cint_len', 'cint.len', ONE, NONE, function(keys)
  return fields_of(keys[1]) or 0
end)

local function dump(key)
  local len = fields_of(key)
  return len and all_fields(key, len) or false
end

reader('cint_dump', 'cint.dump', ONE, NONE, function(keys)
  return dump(keys[1])
end)

reader('cint_mdump', 'cint.mdump', ANY, NONE, function(keys)
  local replies = {}
  for i, key in ipairs(keys) do
    replies[i] = dump(key)
  end
  return replies
end)

reader('cint_mread', 'cint.mread', ANY, ONE, function(keys, args)
  local width = length(args[1]) * FIELD_BYTES
  if width * #keys > MAX_REPLY then
    fail(TOO_LONG)
  end
  local pieces = {}
  for i, key in ipairs(keys) do
    local bytes = fields_of(key) and run('GETRANGE', key, 0, width - 1) or ''
    pieces[i] = bytes .. ('\0'):rep(width - #bytes)
  end
  return table.concat(pieces)
end)

reader('cint_export', 'cint.export', ONE, NONE, function(keys)
  return fields_of(keys[1]) and run('GET', keys[1]) or false
end)

writer('cint_init', 'cint.init', ONE, ONE, function(keys, args)
  local len = length(args[1])
  if fields_of(keys[1]) then
    fail(EXISTS)
  end
  store({ key = keys[1], len = len, grows = true }, {}, {})
  return OK
end)

writer('cint_import', 'cint.import', ONE, ONE, function(keys, args)
  local bytes = #args[1]
  if fields_of(keys[1]) then
    fail(EXISTS)
  end
  if bytes == 0 or bytes % FIELD_BYTES ~= 0 or bytes > MAX_LEN * FIELD_BYTES then
    fail(PAYLOAD)
  end
  run('SET', keys[1], args[1])
  return OK
end)

writer('cint_resize', 'cint.resize', ONE, ONE, function(keys, args)
  local key, len = keys[1], length(args[1])
  local now = fields_of(key)
  if not now then
    fail(NO_SUCH_KEY)
  end
  if len > now then
    store({ key = key, len = len, grows = true }, {}, {})
  elseif len < now then
    if run('GETRANGE', key, len * FIELD_BYTES, -1):find('[^%z]') then
      fail(NOT_ZERO)
    end
    run('SET', key, run('GETRANGE', key, 0, len * FIELD_BYTES - 1), 'KEEPTTL')
  end
  return OK
end)

writer('cint_incrby', 'cint.incrby', ONE, { 2, MANY }, function(keys, args)
  local len, fail_on_overflow, rest = options(args, 3, true)
  if rest <= #args then
    fail(SYNTAX)
  end
  local idx, delta = index(args[1]), integer(args[2])
  len = len and length(len)
  local target = target_of(keys[1], fields_of(keys[1]), len)
  local list = { { idx = idx, number = delta } }
  check_indexes(list, target.len)
  local old = named_fields(keys[1], list)[idx]
  add({ [idx] = old }, list, fail_on_overflow)
  return increment(target, idx, old, args[2])
end)

-- All increments are computed before the first write, to detect an overflow and a batch that changes nothing.
writer('cint_batchincr', 'cint.batchincr', ONE, { 2, MANY }, function(keys, args)
  local len, fail_on_overflow, first = options(args, 1, true)
  check_pairs('cint.batchincr', args, first)
  len = len and length(len)
  local steps = pairs_from(args, first, integer)
  local target = target_of(keys[1], fields_of(keys[1]), len)
  check_indexes(steps, target.len)
  local before = named_fields(keys[1], steps)
  local values = copy(before)
  local after = add(values, steps, fail_on_overflow)
  if target.grows or differ(before, values) then
    store(target, steps, values)
  end
  return after
end)

writer('cint_set', 'cint.set', ONE, { 2, MANY }, function(keys, args)
  local len, _, first = options(args, 1, false)
  check_pairs('cint.set', args, first)
  len = len and length(len)
  local list = pairs_from(args, first, counter_value)
  local target = target_of(keys[1], fields_of(keys[1]), len)
  check_indexes(list, target.len)
  local values = {}
  for _, pair in ipairs(list) do
    values[pair.idx] = pair.number
  end
  if target.grows or differ(values, named_fields(keys[1], list)) then
    store(target, list, values)
  end
  return OK
end)

writer('cint_getset', 'cint.getset', ONE, { 2, 2 }, function(keys, args)
  local list = { { idx = index(args[1]), number = counter_value(args[2]) } }
  local idx, value = list[1].idx, list[1].number
  local target = target_of(keys[1], fields_of(keys[1]))
  check_indexes(list, target.len)
  local old = named_fields(keys[1], list)[idx]
  if target.grows or old ~= value then
    store(target, list, { [idx] = value })
  end
  return target.exists and old or false
end)

writer('cint_apply', 'cint.apply', ONE, { 5, MANY }, function(keys, args)
  local len, _, first = options(args, 4, false)
  check_pairs('cint.apply', args, first)
  local fence, from, to = index(args[1]), unsigned(args[2], OFFSET_MAX), unsigned(args[3], OFFSET_MAX)
  len = len and length(len)
  local steps = pairs_from(args, first, integer)
  if from > to then
    fail(NOT_AN_INTEGER)
  end
  local target = target_of(keys[1], fields_of(keys[1]), len)
  for i = first, #args, 2 do
    -- Compares the text, which is canonical and, unlike Lua's numbers, exact.
    if args[i] == args[1] then
      fail(BAD_INDEX)
    end
  end
  steps[#steps + 1] = { idx = fence, number = 0 }
  check_indexes(steps, target.len)
  local values = named_fields(keys[1], steps)
  local next_offset = values[fence]
  if next_offset <= from then
    add(values, steps)
    values[fence] = to + 1
    store(target, steps, values)
  end
  return next_offset
end)

-- Parses `member [COUNT idx [LEN n] [VERIFY]] [EVENT [SEQ] [MAXLEN n] field value ...]`. The keys of COUNT and EVENT follow the
-- set in KEYS. EVENT comes last: all arguments after its SEQ and MAXLEN are fields and values, even if they equal a
-- keyword.
local function mark_layout(command, keys, args)
  local layout, at, key = {}, 2, 1
  if is(args[at], 'COUNT') then
    key = key + 1
    layout.counter, layout.idx = keys[key], args[at + 1]
    at = at + 2
    if is(args[at], 'LEN') then
      layout.len = args[at + 1]
      at = at + 2
    end
    if is(args[at], 'VERIFY') then
      layout.verify, at = true, at + 1
    end
    if at > #args + 1 then
      fail(SYNTAX)
    end
  end
  if is(args[at], 'EVENT') then
    key = key + 1
    layout.stream, at = keys[key], at + 1
    while true do
      if not layout.seq and is(args[at], 'SEQ') then
        layout.seq, at = true, at + 1
      elseif not layout.maxlen and is(args[at], 'MAXLEN') and args[at + 1] then
        layout.maxlen, at = args[at + 1], at + 2
      else
        break
      end
    end
    layout.fields = at
  elseif at <= #args then
    fail(SYNTAX)
  end
  if key ~= #keys then
    fail(SYNTAX)
  end
  if layout.stream then
    check_pairs(command, args, layout.fields)
  end
  return layout
end

-- The counter of a mark: its object, index and value. `adds` is false for UNMARK, which does not create objects.
local function mark_counter(key, now, idx, len, adds)
  if not now and not adds then
    if idx >= MAX_LEN then
      fail(BAD_INDEX)
    end
    return nil
  end
  local target = target_of(key, now, len)
  local list = { { idx = idx } }
  check_indexes(list, target.len)
  return { target = target, idx = idx, value = named_fields(key, list)[idx] }
end

-- Appends the event. This is the first write, because it can fail (an ID that is not greater, maxmemory).
local function append(layout, args)
  local words = {}
  if layout.maxlen then
    words = { 'MAXLEN', '~', layout.maxlen }
  end
  words[#words + 1] = layout.seq and '0-*' or '*'
  for i = layout.fields, #args do
    words[#words + 1] = args[i]
  end
  if #words > MAX_WORDS then
    fail(TOO_MANY_FIELDS)
  end
  run('XADD', layout.stream, unpack(words))
end

local function toggle(command, adds)
  local write = adds and 'SADD' or 'SREM'
  return function(keys, args)
    local delta = adds and 1 or -1
    local layout = mark_layout(command, keys, args)
    local set, member = keys[1], args[1]
    local idx = layout.idx and index(layout.idx)
    local len = layout.len and length(layout.len)
    if layout.maxlen and integer(layout.maxlen) < 0 then
      fail(NOT_AN_INTEGER)
    end
    if set == layout.counter or set == layout.stream or (layout.counter and layout.counter == layout.stream) then
      fail(SAME_KEYS)
    end
    -- Types are checked before existence and indexes, and all of these before the membership matters.
    local is_member = run('SISMEMBER', set, member) == 1
    local now = layout.counter and fields_of(layout.counter)
    if layout.stream then
      run('XLEN', layout.stream)
    end
    local counter = layout.counter and mark_counter(layout.counter, now, idx, len, adds)
    local value = counter and counter.target.exists and counter.value or false
    if layout.verify and (value or 0) == 0 and run('SCARD', set) > 0 then
      fail(NO_COUNTER)
    end
    if is_member == adds then
      return { 0, value }
    end
    -- A missing counter starts at the cardinality of the set.
    if adds and counter and not value then
      delta = run('SCARD', set) + 1
    end
    permitted(write, set, member)
    if counter then
      permitted('BITFIELD', layout.counter, 'SET', 'u40', 0, 0)
    end
    if layout.stream then
      append(layout, args)
    end
    run(write, set, member)
    return { 1, counter and increment(counter.target, idx, counter.value, delta) or false }
  end
end

writer('cint_mark', 'rbm.mark', { 1, 3 }, ANY, toggle('rbm.mark', true))
writer('cint_unmark', 'rbm.unmark', { 1, 3 }, ANY, toggle('rbm.unmark', false))

-- ---- EVAL ----------------------------------------------------------------------------------------------------------

if not redis.register_function then
  local entry = functions[(table.remove(ARGV, 1) or ''):lower()]
  if not entry then
    return { err = NO_FUNCTION }
  end
  return call(entry, KEYS, ARGV)
end
