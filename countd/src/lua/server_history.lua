-- The history of the writes of this server: the ID of its replication. It changes when the server starts, and when a replica becomes the master,
-- so what was read under another ID may be lost, or have been replaced by other writes.
-- requires: INFO replication
local function server_history()
  return redis.call('INFO', 'replication'):match('master_replid:(%x+)')
end
