-- Records up to where a stream was copied to the topic, unless another process has copied more, and from which history of the server.
--
-- KEYS: the positions. ARGV: the history of the server from which the entries were read, the field, the offset of the first entry that
-- was not copied, the field with the histories of the copies, the name of the history in the copies, and the offset after the last counted
-- entry that has no copy ('' without one). Reply: 1; 0 if the server has another history.
--
-- requires: HGET {position} 0
-- requires: HSET {position} 0 1
if server_history() ~= ARGV[1] then
  return 0
end
local stored = tonumber(redis.call('HGET', KEYS[1], ARGV[2]) or '1')
if not stored or stored < tonumber(ARGV[3]) then
  local histories = redis.call('HGET', KEYS[1], ARGV[4]) or ''
  require_permission('HSET', KEYS[1], ARGV[2], ARGV[3])
  if ARGV[6] ~= '' then
    -- A rebuild cannot begin before it.
    redis.call('HSET', KEYS[1], ARGV[4], string.format('%s:gap,%s:%s', ARGV[6], ARGV[6], ARGV[5]))
  elseif histories:match('[^:]*$') ~= ARGV[5] then
    local added = string.format('%.0f:%s', stored or 1, ARGV[5])
    redis.call('HSET', KEYS[1], ARGV[4], histories == '' and added or histories .. ',' .. added)
  end
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
end
return 1
