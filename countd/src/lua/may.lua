
-- A script is not rolled back, so what its user may not do has to be found before the first write: a command, with its keys.
local function need(...)
  if not redis.acl_check_cmd(...) then
    error(redis.error_reply('NOPERM this user may not run ' .. (...) .. ' on one of the keys'))
  end
end
