-- The sections of a commit: parts with keys and arguments of their own. The files that follow append theirs to this list, in the order of
-- their arguments. A section is a table of functions:
--
-- read(cursor, refuse): reads its arguments at cursor.at and its keys at cursor.key, and checks its keys and permissions. Changes nothing.
-- It calls refuse(k, 'type' or 'short') if KEYS[k] is damaged. Returns the state that the other functions get.
-- append(state, append): appends entries to streams with append(key, id, field, value, ...), which may fail.
-- before(state), after(state, reply): change data, before and after the batch increments counters. They cannot fail. `reply` is a list of
-- integers at the end of the reply of the commit.
local SECTIONS = {}

local function read_sections(cursor, refuse)
  local states = {}
  for i, section in ipairs(SECTIONS) do
    states[i] = section.read(cursor, refuse)
  end
  return states
end

local function run_sections(name, states, argument)
  for i, section in ipairs(SECTIONS) do
    if section[name] then
      section[name](states[i], argument)
    end
  end
end
