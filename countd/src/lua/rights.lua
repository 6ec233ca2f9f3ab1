#!lua flags=no-writes
-- ARGV: for each of some commands how many words it has, and these. Replies for each whether this user may run it (1) or not (0), or
-- 2 if the server has no such command.
local at, reply = 1, {}
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  local is_one, may = pcall(redis.acl_check_cmd, unpack(ARGV, at + 1, at + count))
  reply[#reply + 1] = not is_one and 2 or may and 1 or 0
  at = at + count + 1
end
return reply
