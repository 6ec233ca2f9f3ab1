-- Erases the counts of an entity by day.

-- The keys to delete: the Hashes of days, and the streams of days. Checks the permissions to delete them, and the total.
-- requires: HKEYS {day_counts}
local function days_to_erase(hash, history, totals, streams)
  local found = { keys = { hash, history }, totals = totals }
  local dates = redis.pcall('HKEYS', hash)
  for _, date in ipairs(dates) do
    if date:find('^%d%d%d%d%d%d%d%d$') then
      found.keys[#found.keys + 1] = streams.prefix .. date .. streams.suffix
    end
  end
  for i, key in ipairs(found.keys) do
    -- All streams have the same prefix.
    if i <= 3 then
      require_permission('UNLINK', key)
    end
  end
  found.has_totals = not is_not_totals(totals.key, totals.row)
  if found.has_totals and totals.row == '' then
    require_permission('HDEL', totals.key, totals.eid)
  elseif found.has_totals then
    require_permission('CTAB.DEL', totals.key, totals.row)
  end
  return found
end

-- requires: UNLINK {day_counts}
-- requires: UNLINK {read_stream}
-- requires: HDEL {day_counts} f
-- requires: CTAB.DEL {totals} 0
local function days_erase(found)
  local totals = found.totals
  for _, key in ipairs(found.keys) do
    redis.call('UNLINK', key)
  end
  if found.has_totals and found.totals.row == '' then
    redis.call('HDEL', found.totals.key, found.totals.eid)
  elseif found.has_totals then
    redis.call('CTAB.DEL', found.totals.key, found.totals.row)
  end
  local other = IS_MIXED and total_in_other_form(totals.key, totals.row, totals.eid)
  if other then
    total_delete_other(other, totals.row, totals.eid)
  end
end
