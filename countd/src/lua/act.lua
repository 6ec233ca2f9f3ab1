-- Runs a command that names the author of an entity: registers the author in the same step. The command does not run if the entity has
-- another author.
--
-- KEYS: optionally the idempotency key, then the keys of the command, then those of the author (author.lua). ARGV: the arguments of the
-- author, the time to live of the idempotency key in seconds ('' without one), then the command. Reply: the command's reply, nil if the
-- idempotency key exists, or the error AUTHORMISMATCH with the author of the entity.
--
-- requires: EXISTS {dedup}
-- requires: SET {dedup} 1 EX 1
local ttl = ARGV[6]
if ttl ~= '' then
  if redis.call('EXISTS', KEYS[1]) == 1 then
    return false
  end
  require_permission('SET', KEYS[1], 1, 'EX', ttl)
end
local named = named_author(1)
local mismatch = author_mismatch(named)
if mismatch then
  return mismatch
end
-- A command that fails changes nothing and ends the script. A command that has not appended its event, because a fact has not changed,
-- has changed nothing: the entry of the author may still be refused.
local reply = redis.call(unpack(ARGV, 7))
author_register(named, type(reply) ~= 'table' or reply[1] == 1)
if ttl ~= '' then
  redis.call('SET', KEYS[1], 1, 'EX', ttl)
end
return reply
