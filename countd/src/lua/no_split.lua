-- The function of split_base.lua for entities that are not split.

local function fact_elsewhere()
end
