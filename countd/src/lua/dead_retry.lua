-- KEYS: dead letters, a log. ARGV: id of one of them, its kind, its payload. It goes from here to there, or nothing happens
-- (then the reply is 0: somebody else was quicker).
if #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 0 then
  return 0
end
need('XDEL', KEYS[1], ARGV[1])
-- It is refused before anything has changed, or not at all.
redis.call('XADD', KEYS[2], '0-*', ARGV[2], ARGV[3])
redis.call('XDEL', KEYS[1], ARGV[1])
return 1
