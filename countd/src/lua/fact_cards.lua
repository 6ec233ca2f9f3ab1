-- Counts facts. KEYS and ARGV: sources (sources.lua). Reply: the number of facts of each, or `TYPE` or `LARGE` if they cannot be counted.
local cursor, reply = { at = 1, key = 1 }, {}
while cursor.at <= #ARGV do
  local count, problem = fact_card(read_card_source(cursor))
  reply[#reply + 1] = count or problem
end
return reply
