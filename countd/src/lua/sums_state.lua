-- Returns the sweep and the stage of a slot; 0 without one.
-- requires: HMGET {sums} f
local function sums_state(key)
  local state = redis.pcall('HMGET', key, 'sweep', 'stage')
  return tonumber(state[1]) or 0, tonumber(state[2]) or 0
end
