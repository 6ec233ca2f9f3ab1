-- Credits authors with the counters of their entities.
--
-- Beside the author of an entity (author.lua) is how much of each of the entity's counters the author has been credited with. A commit
-- adds the difference to the author's counters and remembers it. This depends neither on the order of events nor on who was the author
-- when they were appended: once the last event of the entity is committed, the author has been credited with exactly its counters.
--
-- Arguments: how the counters of users are stored (`table`; `object`; `moving` if they are in tables and their objects may still have to
-- be moved; '' if they may be in other slots: then the outbox gets the credits), their number and the minimum length of users' objects,
-- the number of columns of credits, the number of rules, of each rule the minimum length of objects and the number of metrics, of each
-- metric its idx, the number of users' counters that it feeds, and column, idx and name of each;
-- the number of groups, of each group the number of its rule, 1 if the counters are in a table or 0, and the number of entities, of each
-- entity its id, the author that its events name ('' if none), that author's partition, the number of counters that the batch changes,
-- and metric and delta of each. Keys: of each group the table and the Hash of the authors, the table of counters if there is one, and the
-- objects of the entities without a row.

local MAX_COUNTER = 1099511627775
-- What the commit adds to counters to correct them, by key, row and idx (checks.lua).
local corrections = {}
-- The maximum number of increments in an outbox entry: MAX_ADDS in domain/event/derived.rs.
local MAX_ADDS = 1000

-- The sums of credits (sums.lua): the colour that the commit gives to the entities it credits (0 for none), and the counter of each column.
local sums = { colour = 0, columns = {} }

local function take(cursor)
  local argument = ARGV[cursor.at]
  cursor.at = cursor.at + 1
  return argument
end

local function take_number(cursor)
  return tonumber(take(cursor))
end

local function take_key(cursor)
  local key = KEYS[cursor.key]
  cursor.key = cursor.key + 1
  return key
end

local function credit_rules(cursor)
  local rules = {}
  for r = 1, take_number(cursor) do
    local rule = { min_len = take_number(cursor), metrics = {} }
    for m = 1, take_number(cursor) do
      local metric = { idx = take(cursor), counters = {} }
      for c = 1, take_number(cursor) do
        metric.counters[c] = { column = take_number(cursor), idx = take(cursor), name = take(cursor) }
      end
      rule.metrics[m] = metric
    end
    rules[r] = rule
  end
  return rules
end

-- The entities of a group, and the ids of those that are numbers.
local function credited_entities(cursor, count, has_table)
  local entities, numbers = {}, {}
  for i = 1, count do
    local entity = { eid = take(cursor), named = take(cursor), partition = take(cursor) }
    for _ = 1, take_number(cursor) do
      local metric = take_number(cursor)
      entity.deltas = entity.deltas or {}
      entity.deltas[metric] = take_number(cursor)
    end
    local is_in_tables = has_author_row(entity.eid)
    if is_in_tables then
      numbers[#numbers + 1] = entity.eid
      entity.row = #numbers
    end
    if not (has_table and is_in_tables) then
      entity.key_at = cursor.key
      entity.key = take_key(cursor)
    end
    entities[i] = entity
  end
  return entities, numbers
end

-- Sets the author of each entity. Returns false if the Hash holds another type.
-- requires: HMGET {authors} f
local function find_authors(group, entities, rows)
  local fields, without_row = {}, {}
  for _, entity in ipairs(entities) do
    local row = entity.row and rows[entity.row]
    if row then
      entity.before = author_of_row(row)
    else
      fields[#fields + 1], without_row[#without_row + 1] = entity.eid, entity
    end
  end
  for from = 1, #fields, 1000 do
    local to = math.min(from + 999, #fields)
    local values = redis.pcall('HMGET', group.hash, unpack(fields, from, to))
    if values.err then
      if not values.err:find('^WRONGTYPE') then
        error(values)
      end
      return false
    end
    for i = from, to do
      local value = values[i - from + 1]
      without_row[i].before = value and author_of_field(value)
    end
  end
  return true
end

-- Adds to what a user will be credited with.
local function add_credit(credits, author, kind, counter, amount)
  local user = credits.users[author.uid]
  if not user then
    user = { uid = author.uid, partition = author.partition, counters = {}, sums = {} }
    credits.users[author.uid] = user
    credits.list[#credits.list + 1] = user
  end
  local sum = user[kind][counter.idx] or { name = counter.name, amount = 0 }
  sum.amount = sum.amount + amount
  user[kind][counter.idx] = sum
end

-- Adds to the sums what an author is credited with. An entity without the colour is given it, and all its credits are added. Returns
-- whether the colour is new.
local function colour_author(credits, author, before)
  local is_new = author.colour ~= sums.colour
  for column, counter in pairs(sums.columns) do
    local amount = (author.credited[column] or 0) - (is_new and 0 or before[column] or 0)
    if amount ~= 0 then
      add_credit(credits, author, 'sums', counter, amount)
    end
  end
  author.colour = sums.colour
  return is_new
end

-- Computes the credit of the author of an entity. `counters` are those of its row.
local function credit_entity(credits, group, rule, entity, counters)
  local author, is_changed = entity.before, false
  if not author and entity.named ~= '' then
    author, is_changed = { uid = entity.named, partition = entity.partition, colour = 0, credited = {} }, true
  end
  if not author or author.uid == '' then
    return
  end
  if entity.named ~= '' and entity.named ~= author.uid then
    credits.mismatches = credits.mismatches + 1
  end
  for column = #author.credited + 1, credits.columns do
    author.credited[column] = 0
  end
  local credited_before = sums.colour > 0 and { unpack(author.credited) }
  for m, metric in ipairs(rule.metrics) do
    local value
    if entity.key then
      value = counter_get(entity.key, '', metric.idx) or 0
    else
      value = counters and counters[metric.idx + 1] or 0
    end
    local place = entity.key and entity.key .. '|' or group.counters .. '|' .. entity.eid
    value = value + (corrections[place .. '|' .. metric.idx] or 0)
    -- What the counter will be after this batch. Like the increments, it stops at 0 and at the maximum.
    value = math.max(0, math.min(value + (entity.deltas and entity.deltas[m] or 0), MAX_COUNTER))
    for _, counter in ipairs(metric.counters) do
      local amount = value - author.credited[counter.column]
      if amount ~= 0 then
        author.credited[counter.column], is_changed = value, true
        add_credit(credits, author, 'counters', counter, amount)
      end
    end
  end
  if credited_before then
    is_changed = colour_author(credits, author, credited_before) or is_changed
  end
  if is_changed then
    credits.changes[#credits.changes + 1] = { group = group, eid = entity.eid, author = author, before = entity.before }
  end
end

-- Computes the credits of a group of entities. Calls `unusable` with each key that has another type or is too short.
local function credit_group(credits, cursor, rules, unusable)
  local rule, has_table, count = rules[take_number(cursor)], take(cursor) == '1', take_number(cursor)
  local group = { at = cursor.key, authors = take_key(cursor), hash = take_key(cursor) }
  local counters_at, counters = cursor.key, has_table and take_key(cursor)
  group.counters = counters or ''
  local entities, numbers = credited_entities(cursor, count, has_table)
  local is_usable = true
  local function refuse(at, mismatch)
    unusable(at, mismatch)
    is_usable = false
  end
  local authors, rows = {}, {}
  if #numbers > 0 then
    authors = table_rows(group.authors, numbers) or refuse(group.at, 'type')
    rows = has_table and (table_rows(counters, numbers) or refuse(counters_at, 'type')) or {}
  end
  for _, entity in ipairs(entities) do
    local mismatch = entity.key and counter_mismatch(entity.key, '', rule.min_len)
    if mismatch then
      refuse(entity.key_at, mismatch)
    end
  end
  if authors and not find_authors(group, entities, authors) then
    refuse(group.at + 1, 'type')
  end
  if not is_usable then
    return
  end
  -- A permission check costs as much as the command, and all of these keys have one prefix.
  if not credits.is_permitted then
    author_require_permission(group.authors, group.hash)
    credits.is_permitted = true
  end
  for _, entity in ipairs(entities) do
    credit_entity(credits, group, rule, entity, rows[entity.row or 0])
  end
end

-- Where the counters of a user are, on a server where every key is in reach. The consumer cannot know the key, because it does not know
-- the authors.
local function user_location(storage, user)
  if storage ~= 'object' and is_number(user.uid) then
    return 'utab:' .. user.partition, user.uid
  end
  return 'ucnt:' .. user.uid, ''
end

-- Decides how each user gets their credit: in this step, or through the outbox if their counters are in another slot, or are unusable. The
-- consumer of the outbox then moves the credit to the dead letters.
local function route_credits(credits, storage)
  local mismatches, permitted = {}, {}
  for _, user in ipairs(credits.list) do
    local is_direct = false
    if storage ~= '' then
      user.key, user.row = user_location(storage, user)
      if mismatches[user.key] == nil then
        mismatches[user.key] = counter_mismatch(user.key, user.row, credits.user_min_len) or false
      end
      local mismatch = mismatches[user.key]
      if storage == 'moving' and user.row ~= '' then
        mismatch = mismatch or counter_move('ucnt:' .. user.uid, user.key, user.uid, credits.user_min_len)
      end
      is_direct = not mismatch
      local is_row = user.row ~= ''
      if not permitted[is_row] then
        permitted[is_row] = true
        if is_row then
          table_require_permission(user.key)
        else
          counter_require_permission(user.key, '')
        end
      end
    end
    local list = is_direct and credits.direct or credits.forwarded
    list[#list + 1] = user
  end
end

-- Computes the credits of a batch, whose arguments and keys begin at these places; `argument` is false without credits. Changes nothing,
-- but may move counters.
local function read_credits(argument, key, unusable)
  local credits = { users = {}, list = {}, changes = {}, direct = {}, forwarded = {}, mismatches = 0 }
  local cursor = { at = argument, key = key }
  if not argument then
    return credits
  end
  local storage = take(cursor)
  credits.user_len, credits.user_min_len, credits.columns = take_number(cursor), take_number(cursor), take_number(cursor)
  local rules = credit_rules(cursor)
  for _ = 1, take_number(cursor) do
    credit_group(credits, cursor, rules, unusable)
  end
  route_credits(credits, storage)
  return credits
end

-- Adds the increments of a user, as JSON, to an outbox entry.
local function add_increments(entry, adds, increments)
  for _, add in ipairs(adds) do
    entry.adds[#entry.adds + 1] = add
  end
  for _, sum in ipairs(increments) do
    entry.sums[#entry.sums + 1] = sum
  end
end

-- The increments of a user as JSON: those of counters, and those of sums.
local function increments_of(user)
  local adds, increments = {}, {}
  for _, counter in pairs(user.counters) do
    if counter.amount ~= 0 then
      adds[#adds + 1] = string.format('["%s","%s",%.0f]', user.uid, counter.name, counter.amount)
    end
  end
  for _, counter in pairs(user.sums) do
    if counter.amount ~= 0 then
      increments[#increments + 1] = string.format('["%s","%s",%.0f,%.0f]', user.uid, counter.name, counter.amount, sums.colour)
    end
  end
  return adds, increments
end

-- Appends an outbox entry with `append`, unless it is empty.
local function append_increments(append, partition, entry)
  local fields = {}
  for _, name in ipairs({ 'adds', 'sums' }) do
    if #entry[name] > 0 then
      fields[#fields + 1] = name
      fields[#fields + 1] = '[' .. table.concat(entry[name], ',') .. ']'
    end
  end
  if #fields > 0 then
    append(partition, unpack(fields))
  end
  return #fields > 0
end

-- Calls `append` with the partition, and fields and contents, of each outbox entry. A user's increments are in one entry.
local function forward_credits(credits, append)
  local entries, forwards = {}, false
  for _, user in ipairs(credits.forwarded) do
    local entry, adds, increments = entries[user.partition] or { adds = {}, sums = {} }, increments_of(user)
    if #entry.adds + #entry.sums + #adds + #increments > MAX_ADDS then
      forwards = append_increments(append, user.partition, entry) or forwards
      entry = { adds = {}, sums = {} }
    end
    add_increments(entry, adds, increments)
    entries[user.partition] = entry
  end
  for partition, entry in pairs(entries) do
    forwards = append_increments(append, partition, entry) or forwards
  end
  return forwards
end

-- Changes the counters of authors, and remembers what they were credited with.
local function write_credits(credits)
  for _, change in ipairs(credits.changes) do
    author_set(change.group.authors, change.group.hash, change.eid, change.author, change.before)
  end
  local tables, keys = {}, {}
  for _, user in ipairs(credits.direct) do
    local increments = {}
    if user.row ~= '' then
      if not tables[user.key] then
        tables[user.key] = {}
        keys[#keys + 1] = user.key
      end
      increments = tables[user.key]
    end
    for idx, counter in pairs(user.counters) do
      if user.row ~= '' then
        increments[#increments + 1] = user.row
      end
      increments[#increments + 1] = idx
      increments[#increments + 1] = string.format('%.0f', counter.amount)
    end
    if user.row == '' and #increments > 0 then
      counter_add(user.key, '', credits.user_len, unpack(increments))
    end
  end
  for _, key in ipairs(keys) do
    table_add(key, credits.user_len, tables[key], 1, #tables[key])
  end
end
