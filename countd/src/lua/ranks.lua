-- The section of a commit with the entities whose counts by day have changed: their scores are computed again. It follows the section of
-- days.
--
-- KEYS: the states of rankings. ARGV: the number of rankings, and of each its arguments (rank.lua), the number of entities and their IDs.
--
-- requires: HSET {rank} f v
SECTIONS[#SECTIONS + 1] = {
  read = function(cursor, _)
    local rankings = {}
    for i = 1, take_number(cursor) do
      local ranking = read_ranking(cursor)
      ranking.eids = {}
      for at = 1, take_number(cursor) do
        ranking.eids[at] = take(cursor)
      end
      read_rank_days(ranking)
      if ranking.is_other or #ranking.days > 0 then
        rank_require_permission(ranking)
      end
      rankings[i] = ranking
    end
    return rankings
  end,
  after = function(rankings)
    for _, ranking in ipairs(rankings) do
      rank_entities(ranking, ranking.eids)
      if ranking.is_other then
        -- Processes with different definitions run: the ranking is filled again.
        redis.call('HSET', ranking.state_key, 'stale', 1)
      end
    end
  end,
}
