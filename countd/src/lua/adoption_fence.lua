-- Ends the script if its slot no longer has what the script can read: an adoption has begun to convert the slot, and the process that sent
-- the call does not follow it yet. It was suspended, or its call was late. Nothing has changed then.
--
-- The field `:counters` of the phases of a slot is the step of the adoption (adoption.rs): from `module-or-plain` on, a slot gets values
-- that scripts for Strings and Sets cannot read; from `module` on, it gets no Strings and Sets any more.
--
-- requires: HGET {phases} f
do
  local step = redis.call('HGET', 'countd:storage' .. ((KEYS[1] or ''):match(':{%d+}') or ''), ':counters')
  if step == 'module' or step and not IS_MIXED then
    return redis.error_reply('OLDLAYOUT this process does not follow the conversion of the data yet')
  end
end
