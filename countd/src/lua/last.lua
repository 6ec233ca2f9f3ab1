-- KEYS: a log. Replies its last entry as XREVRANGE does, without what it holds, which may be long.
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
return last and { { last[1], {} } } or {}
