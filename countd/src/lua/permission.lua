
-- Redis does not roll a script back. A script therefore checks, before its first write, that its user may run each command that it
-- is about to run, with the command's keys.
local function require_permission(...)
  if not redis.acl_check_cmd(...) then
    error(redis.error_reply('NOPERM this user may not run ' .. (...) .. ' on one of the keys'))
  end
end
