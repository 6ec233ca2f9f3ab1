local MAX_NUMBER = '18446744073709551615'

-- Whether an id is the canonical form of an unsigned 64-bit integer.
local function is_number(id)
  return id == '0' or id:find('^[1-9]%d*$') and (#id < #MAX_NUMBER or #id == #MAX_NUMBER and id <= MAX_NUMBER) or false
end
