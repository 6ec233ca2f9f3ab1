#!lua flags=no-writes
-- Checks which commands the current user may run.
--
-- ARGV: for each command, the number of its arguments (including the name), and the arguments. Reply: for each command 1 if the
-- user may run it, 0 if not, 2 if the server does not have it.
local at, reply = 1, {}
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  local exists, allowed = pcall(redis.acl_check_cmd, unpack(ARGV, at + 1, at + count))
  reply[#reply + 1] = not exists and 2 or allowed and 1 or 0
  at = at + count + 1
end
return reply
