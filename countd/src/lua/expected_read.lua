-- The counters of an entity as its facts say. KEYS and ARGV: those of `compare` (expected.lua). Reply: the values of the fields, or the
-- error of a key of another type.
local state = compare({ key = 1, at = 1 })
return state.is_refused and counter_error('type') or shown(state)
