-- The functions of day.lua for metrics without counts by day.

local function day_mismatch(_, _, _)
end

local function day_count(_)
end

local function day_mismatch_of_command(_)
end

local function day_count_reply(_)
end
