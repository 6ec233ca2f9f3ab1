-- Runs a command that names the author of an entity: registers the author in the same step. The command does not run if the entity has
-- another author.
--
-- KEYS: optionally the idempotency key, then the keys of the command, then those of the author (author.lua). ARGV: the arguments of the
-- author, the guard of the idempotency key ('' without one), then the command. Reply: the command's reply, the stored answer if the
-- idempotency key exists, or the error AUTHORMISMATCH with the author of the entity.
local guard = ARGV[6]
local guard_key = guard ~= '' and KEYS[1] or nil
local first = replayed(guard_key)
if first then
  return first
end
require_permission_to_remember(guard_key)
local named = named_author(1)
local mismatch = author_mismatch(named)
if mismatch then
  return mismatch
end
local damaged = day_mismatch_of_command(7)
if damaged then
  return damaged
end
-- A command that fails changes nothing and ends the script. A command that has not appended its event, because a fact has not changed,
-- has changed nothing: the entry of the author may still be refused.
local reply = redis.call(unpack(ARGV, 7))
day_count_reply(reply)
author_register(named, type(reply) ~= 'table' or reply[1] == 1)
remember_reply(guard_key, guard, reply)
return reply
