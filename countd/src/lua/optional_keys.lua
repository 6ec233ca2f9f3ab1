-- The keys from KEYS[at] on, one for each argument that is not ''. nil in place of the others.
local function optional_keys(at, ...)
  local keys, count = {}, select('#', ...)
  for k = 1, count do
    if select(k, ...) ~= '' then
      keys[k], at = KEYS[at], at + 1
    end
  end
  return unpack(keys, 1, count)
end
