-- The outcomes of entries that a batch does not count, until they are archived.
--
-- Keys: for each partition the Hash of outcomes. Arguments: the number of partitions, of each the number of fields and values that follow,
-- and these: offset and outcome of each entry.
--
-- requires: HLEN {outcomes}
-- requires: HSET {outcomes} 1 2
SECTIONS[#SECTIONS + 1] = {
  read = function(cursor, refuse)
    local lists = {}
    for i = 1, take_number(cursor) do
      local at = cursor.key
      local list = { key = take_key(cursor), count = take_number(cursor), at = cursor.at }
      cursor.at = cursor.at + list.count
      local length = redis.pcall('HLEN', list.key)
      if type(length) == 'table' then
        refuse(at, 'type')
      end
      require_permission('HSET', list.key, '1', '2')
      lists[i] = list
    end
    return lists
  end,
  before = function(lists)
    for _, list in ipairs(lists) do
      for from = list.at, list.at + list.count - 1, 1000 do
        redis.call('HSET', list.key, unpack(ARGV, from, math.min(from + 999, list.at + list.count - 1)))
      end
    end
  end,
}
