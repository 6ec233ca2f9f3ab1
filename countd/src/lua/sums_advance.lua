-- Advances the sweep that adds up credits (sums.lua) in a slot.
--
-- KEYS: the state, then the tables and the Hashes of the sums. ARGV: the sweep, the stage, 1 to enter it although the slot is not in the stage before (only stage 4
-- can be entered like this) or 0, and the time, which is stored at the end of the sweep. Nothing changes unless the slot is in the stage before. A sweep begins, with the next number, when the one before has ended. Reply: the sweep and the stage of the slot.
--
-- requires: UNLINK {sums}
-- requires: UNLINK {tables}
-- requires: HSET {sums} f v
-- requires: HDEL {sums} f
local sweep, stage = sums_state(KEYS[1])
local next_sweep, next_stage, is_forced = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
local is_next = next_sweep == sweep and next_stage == stage + 1
if next_stage == 1 then
  is_next = next_sweep == sweep + 1 and (stage == 6 or sweep == 0)
elseif is_forced and next_stage == 4 then
  is_next = next_sweep > sweep or next_sweep == sweep and stage < 4
end
if not is_next then
  return { sweep, stage }
end
if next_stage == 1 or next_stage == 6 then
  for from = 2, #KEYS, 1000 do
    redis.call('UNLINK', unpack(KEYS, from, math.min(from + 999, #KEYS)))
  end
  redis.call('HDEL', KEYS[1], 'damaged')
end
redis.call('HSET', KEYS[1], 'sweep', ARGV[1], 'stage', ARGV[2])
if is_forced then
  -- If this is interrupted, other slots are not compared: their sums are not complete.
  redis.call('HSET', KEYS[1], 'damaged', ARGV[1])
end
if next_stage == 6 then
  redis.call('HSET', KEYS[1], 'ended', ARGV[4])
end
return { next_sweep, next_stage }
