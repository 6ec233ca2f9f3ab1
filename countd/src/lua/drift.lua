-- Differences of counters: whether they are corrected, and which counters differ in round after round.

-- The maximum number of counters that a Hash of differences holds.
local MAX_DRIFT = 1000

-- What a check has found.
local EQUAL, DIFFERS, CORRECTED, UNCHECKED = 0, 1, 2, 3

-- Whether a difference is above the thresholds. `percent` is relative to the right value.
local function is_above(difference, expected, min_difference, percent)
  difference = math.abs(difference)
  return difference > min_difference or difference * 100 > percent * math.max(expected, 1)
end

local function drift_require_permission(key)
  require_permission('HLEN', key)
  require_permission('HGET', key, 'f')
  require_permission('HSET', key, 'f', 1)
  require_permission('HDEL', key, 'f')
end

-- Counts the rounds in a row in which a counter was above the thresholds: `{rounds}/{last round}`. Rounds begin with 1. Checks of
-- one round count once: the first one corrects the counter, so it is right when the others compare it.
-- requires: HLEN {drift}
-- requires: HGET {drift} f
-- requires: HSET {drift} f 1
-- requires: HDEL {drift} f
local function note_drift(key, field, above, round)
  local noted = redis.call('HGET', key, field)
  local rounds, last = (noted or ''):match('^(%d+)/(%d+)$')
  if last == round then
    return
  elseif not above then
    if noted then
      redis.call('HDEL', key, field)
    end
  elseif round ~= '0' and (rounds or redis.call('HLEN', key) < MAX_DRIFT) then
    redis.call('HSET', key, field, string.format('%d/%s', (rounds or 0) + 1, round))
  end
end
