-- Moves counters from objects to rows of tables, for a migration.
--
-- KEYS: the phases of the slot, then object and table of each counter. ARGV: the type, then row and minimum length of each counter.
-- Reply: how many were moved, how many of them were added to a row that existed, and of each damaged object its number (1 is the first)
-- and 1 if it is too short or 0. The error NOPHASE if the slot has no phase.
--
-- requires: HGET {phases} f
if not redis.call('HGET', KEYS[1], ARGV[1]) then
  return redis.error_reply('NOPHASE the migration of this slot has not begun')
end
local moved, merged, damaged = 0, 0, {}
for i = 1, (#KEYS - 1) / 2 do
  local mismatch, row = counter_move(KEYS[2 * i], KEYS[2 * i + 1], ARGV[2 * i], ARGV[2 * i + 1])
  if mismatch then
    damaged[#damaged + 1] = i
    damaged[#damaged + 1] = mismatch == 'short' and 1 or 0
  elseif row then
    moved = moved + 1
    merged = merged + (row > 0 and 1 or 0)
  end
end
return { moved, merged, unpack(damaged) }
