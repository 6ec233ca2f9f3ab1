-- Idempotency keys. The value of a key is the hash of its request and the first answer, `{hash}:{changed}:{count}`; an older version
-- wrote `1`. A guard is the time to live in seconds and the hash of the request, `{seconds}:{hash}`.

-- Returns the stored answer as a reply, `{'R', value}`, if the key exists.
-- requires: GET {dedup}
local function replayed(key)
  local value = key and redis.call('GET', key)
  return value and { 'R', value }
end

local function require_permission_to_remember(key)
  if key then
    require_permission('SET', key, 1, 'EX', 1)
  end
end

-- Stores the first answer. `count` is false without a count.
-- requires: SET {dedup} 1 EX 1
local function remember(key, guard, changed, count)
  if key then
    local seconds, hash = guard:match('^(%d+):(%x+)$')
    local value = string.format('%s:%d:%s', hash, changed, count and string.format('%.0f', count) or '-')
    redis.call('SET', key, value, 'EX', seconds)
  end
end

-- Stores the first answer that is the reply of a command. RBM.MARK and RBM.UNMARK reply whether the fact changed, and the count. XADD
-- replies the ID of the entry.
local function remember_reply(key, guard, reply)
  if type(reply) == 'table' then
    remember(key, guard, reply[1], reply[2])
  else
    remember(key, guard, 1, false)
  end
end
