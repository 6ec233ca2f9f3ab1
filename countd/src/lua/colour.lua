-- Visits a page of registered authors for the sweep that adds up credits (sums.lua).
--
-- KEYS: those of sums.lua, the table and the Hash of the authors, and the outbox. ARGV: those of sums.lua, the sweep, `table` or `hash`, the cursor and the number
-- of entities. Reply: the next cursor and the number of registrations that were given the colour; nil if the sweep does not colour entities in this slot now.
--
-- requires: HSCAN {authors} 0
-- requires: XADD {out} 0-* f v
-- requires: XDEL {out} 0-1
local cursor = { at = 1, key = 1 }
read_sums(cursor)
local authors, hash, outbox = take_key(cursor), take_key(cursor), take_key(cursor)
local sweep, kind, page_cursor, count = take_number(cursor), take(cursor), take(cursor), take(cursor)
if sums.colour ~= sweep then
  return false
end

-- The registrations of the page: lists of ids and of authors.
local function read_page()
  local authors_of_page, page = {}, nil
  if kind == 'table' then
    page = table_ids(authors, page_cursor, count)
    local rows = #page[2] > 0 and table_rows(authors, page[2]) or {}
    for i in ipairs(page[2]) do
      authors_of_page[i] = rows[i] and author_of_row(rows[i])
    end
    return page[1], page[2], authors_of_page
  end
  page = redis.call('HSCAN', hash, page_cursor, 'COUNT', count)
  local eids = {}
  for i = 1, #page[2], 2 do
    eids[#eids + 1] = page[2][i]
    authors_of_page[#eids] = author_of_field(page[2][i + 1])
  end
  return page[1], eids, authors_of_page
end

local next_cursor, eids, page = read_page()
local credits, coloured = { users = {}, list = {}, direct = {}, forwarded = {} }, {}
for i, eid in ipairs(eids) do
  local author = page[i]
  local is_credited = false
  for _, amount in ipairs(author and author.credited or {}) do
    is_credited = is_credited or amount > 0
  end
  -- A commit colours the others when it credits them.
  if is_credited and author.colour ~= sums.colour then
    colour_author(credits, author, {})
    coloured[#coloured + 1] = { eid = eid, author = author }
  end
end
if #coloured == 0 then
  return { next_cursor, 0 }
end
author_require_permission(authors, hash)
if sums.table then
  -- The authors may be in other slots.
  require_permission('XDEL', outbox, '0-1')
  credits.forwarded = credits.list
  local added = {}
  forward_credits(credits, function(partition, ...)
    local id = redis.pcall('XADD', outbox, '0-*', 'to', partition, ...)
    if type(id) == 'table' then
      for _, entry in ipairs(added) do
        redis.call('XDEL', outbox, entry)
      end
      error(id)
    end
    added[#added + 1] = id
  end)
else
  credits.direct = credits.list
end
prepare_sums(credits)
for _, entity in ipairs(coloured) do
  author_set(authors, hash, entity.eid, entity.author, entity.author)
end
write_sums()
return { next_cursor, #coloured }
