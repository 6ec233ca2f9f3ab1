-- The author of an entity. The registration is in the entity's slot.
--
-- A row of the table of authors has 1 + the first digits of the author's id (0 if the entity has no author any more), the last 10
-- digits, the author's partition + 65536 * colour, and for each counter of authors that a metric feeds how much of the entity's counter the author's
-- counter has been credited with. If the id of the entity or of the author is not a number, or the data has no tables, the same is a field of a Hash:
-- the author, the partition (`partition/colour` unless the colour is 0) and the amounts, separated by spaces. The colour is the number of the last sweep that has added the amounts to
-- its sums (sums.lua).
--
-- Functions represent an author as { uid (''  if there is none any more), partition, colour, credited = { amounts } }.

local AUTHOR_DIGITS, AUTHOR_COLUMNS, COLOUR = 10, 3, 65536

-- Whether the author of this entity can be in a table.
local function has_author_row(eid)
  return table_rows and is_number(eid)
end

local function author_of_row(row)
  local first, last = row[1], row[2]
  local author = { partition = row[3] % COLOUR, colour = math.floor(row[3] / COLOUR), credited = {} }
  if first == 0 then
    author.uid = ''
  elseif first == 1 then
    author.uid = string.format('%.0f', last)
  else
    author.uid = string.format('%.0f%010.0f', first - 1, last)
  end
  for i = AUTHOR_COLUMNS + 1, #row do
    author.credited[i - AUTHOR_COLUMNS] = row[i]
  end
  return author
end

local function author_of_field(value)
  local uid, partition, colour, amounts = value:match('^(%S*) (%d+)/?(%d*)(.*)$')
  local author = { uid = uid, partition = partition, colour = tonumber(colour) or 0, credited = {}, is_field = true }
  for amount in amounts:gmatch('%d+') do
    author.credited[#author.credited + 1] = tonumber(amount)
  end
  return author
end

-- The author of an entity; nil if none was ever registered.
-- requires: HGET {authors} f
local function author_get(authors, hash, eid)
  if has_author_row(eid) then
    local rows = table_rows(authors, { eid })
    if not rows then
      error(counter_error('type'))
    end
    if rows[1] then
      return author_of_row(rows[1])
    end
  end
  local value = redis.call('HGET', hash, eid)
  return value and author_of_field(value) or nil
end

local function author_require_permission(authors, hash)
  require_permission('HSET', hash, 'f', '')
  require_permission('HDEL', hash, 'f')
  if table_rows then
    require_permission('CTAB.SET', authors, 0, 'LEN', 1, 0, 0)
    require_permission('CTAB.DEL', authors, 0)
  end
end

-- Replaces the author `before` (nil if there was none).
-- requires: HSET {authors} f v
-- requires: HDEL {authors} f
local function author_set(authors, hash, eid, author, before)
  if has_author_row(eid) and PREFERS_MODULE and (author.uid == '' or is_number(author.uid)) then
    local first, last = author.uid:sub(1, -AUTHOR_DIGITS - 1), author.uid:sub(-AUTHOR_DIGITS)
    local place = string.format('%.0f', author.partition + COLOUR * (author.colour or 0))
    local values = { 0, author.uid == '' and 0 or 1 + (tonumber(first) or 0), 1, tonumber(last) or 0, 2, place }
    for i, amount in ipairs(author.credited) do
      values[#values + 1] = AUTHOR_COLUMNS + i - 1
      values[#values + 1] = amount
    end
    table_set(authors, eid, AUTHOR_COLUMNS + #author.credited, values)
    if before and before.is_field then
      redis.call('HDEL', hash, eid)
    end
    return
  end
  local value = author.uid .. ' ' .. author.partition
  if (author.colour or 0) > 0 then
    value = value .. string.format('/%.0f', author.colour)
  end
  for _, amount in ipairs(author.credited) do
    value = value .. string.format(' %.0f', amount)
  end
  redis.call('HSET', hash, eid, value)
  if has_author_row(eid) and before and not before.is_field then
    table_delete(authors, eid)
  end
end

-- The author that a call names. Its arguments are `at` to `at + 4`: type and id of the entity, id and partition of the author, and the
-- counters that metrics feed, as `metric>counter`. Its last keys are the table and the Hash of authors, and the log. Nil without arguments.
local function named_author(at)
  if not ARGV[at] then
    return nil
  end
  local etype, eid, uid, partition, metrics = unpack(ARGV, at, at + 4)
  local named = { etype = etype, eid = eid, uid = uid, partition = partition, metrics = metrics }
  named.authors, named.hash, named.log = unpack(KEYS, #KEYS - 2)
  named.before = author_get(named.authors, named.hash, eid)
  author_require_permission(named.authors, named.hash)
  return named
end

-- The error reply if the entity has another author than the named one.
local function author_mismatch(named)
  local before = named and named.before
  if before and before.uid ~= '' and before.uid ~= named.uid then
    return redis.error_reply('AUTHORMISMATCH ' .. before.uid)
  end
end

-- Registers the named author if the entity has another one, or none. Returns whether it did. The consumer credits the author with the
-- entity's counters at the next event of the entity that feeds or names an author. Without one (`is_followed`), an entry is appended to
-- the log. From it the consumer subtracts the credits of the previous author.
-- requires: XADD {log} 0-* f v
local function author_register(named, is_followed)
  local before = named and named.before
  if not named or before and before.uid == named.uid then
    return false
  end
  local amounts, credited, i = {}, {}, 0
  for metric in named.metrics:gmatch('%S+') do
    i = i + 1
    credited[i] = 0
    local amount = before and before.credited[i] or 0
    if amount > 0 then
      amounts[#amounts + 1] = string.format('["%s",%.0f]', metric, amount)
    end
  end
  local entry = '{"etype":"' .. named.etype .. '","eid":"' .. named.eid .. '"'
  if #amounts > 0 then
    entry = entry .. ',"from":"' .. before.uid .. '","amounts":[' .. table.concat(amounts, ',') .. ']'
    if before.colour > 0 then
      entry = entry .. string.format(',"sweep":%.0f', before.colour)
    end
  end
  entry = entry .. ',"to":"' .. named.uid .. '"'
  -- An event names only the first author.
  if not is_followed or before then
    -- The last command that can fail comes first, since Redis does not roll a script back.
    redis.call('XADD', named.log, '0-*', 'a', entry .. '}')
  end
  author_set(named.authors, named.hash, named.eid, { uid = named.uid, partition = named.partition, credited = credited }, before)
  return true
end

-- Unregisters the author. The consumer subtracts the credits from the author's counters. The registration stays without an author, so
-- that events which are still in the log do not register the author that they name; author_forget deletes it.
local function author_unregister(named)
  named.uid = ''
  author_register(named, true)
end

-- Deletes the registration if the entity has no author any more.
-- requires: HDEL {authors} f
local function author_forget(named)
  local before = named.before
  if not before or before.uid ~= '' then
    return 0
  elseif before.is_field then
    redis.call('HDEL', named.hash, named.eid)
  else
    table_delete(named.authors, named.eid)
  end
  return 1
end
