-- Reads the history of a server (server_history.lua).
--
-- KEYS: a key, which says which server. Reply: the ID of the history.
return server_history()
