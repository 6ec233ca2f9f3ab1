-- Records a fact or takes it back; if that is news, counts it and writes its event: all of it, or nothing.
--
-- KEYS: those of the fact, a log, maybe a counter, maybe what is remembered of an idempotency key. ARGV: those of the fact, `add`
-- or `remove`, the event, idx, length and least length of the counter ('' without one), for how many seconds the key is
-- remembered ('' without one). Replies nil if the key was there, else, as RBM.MARK, whether it is news, and the counter after it.
local op, event, idx, len, least, window = unpack(ARGV, FACT_ARGS + 1, FACT_ARGS + 6)
local adds, log, at = op == 'add', KEYS[FACT_KEYS + 1], FACT_KEYS + 2
local counter, guard
if idx ~= '' then
  counter, at = KEYS[at], at + 1
end
if window ~= '' then
  guard = KEYS[at]
end

if guard and redis.call('EXISTS', guard) == 1 then
  return false
end
local misfit = counter and counter_misfit(counter, tonumber(least))
if misfit then
  return counter_refusal(misfit)
end
local value = counter and counter_get(counter, idx) or false
local is_news = fact_is() ~= adds
if guard then
  need('SET', guard, 1, 'EX', window)
end
if is_news then
  fact_need(adds)
  if counter then
    counter_need(counter)
  end
  -- This one can still fail. What follows cannot: a script is not rolled back.
  redis.call('XADD', log, '0-*', 'e', event)
  if adds then
    fact_add()
  else
    fact_remove()
  end
  -- One that is missing has nothing that could be taken back.
  if counter and (adds or value) then
    value = counter_add(counter, len, idx, adds and 1 or -1)[1]
  end
end
if guard then
  redis.call('SET', guard, 1, 'EX', window)
end
return { is_news and 1 or 0, value }
