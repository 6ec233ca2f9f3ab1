-- The functions of backend_module.lua (`in_module`) and backend_strings.lua (`in_strings`) on data that an adoption converts: the type of
-- a key tells which of both forms it has. PREFERS_MODULE tells which one a new
-- key gets.

-- The functions for a key. `plain` is the type of its form without the module.
-- requires: TYPE {counters}
-- requires: TYPE {ids}
local function functions_of(key, plain)
  local kind = redis.call('TYPE', key).ok
  if kind == plain or kind == 'none' and not PREFERS_MODULE then
    return in_strings
  end
  return in_module
end

-- Only data of the module has rows.
local function functions_of_counters(key, row)
  return row == '' and functions_of(key, 'string') or in_module
end

local function counter_mismatch(key, row, min_len)
  return functions_of_counters(key, row).counter_mismatch(key, row, min_len)
end

local function counter_require_permission(key, row)
  functions_of_counters(key, row).counter_require_permission(key, row)
end

local function counter_add(key, row, len, ...)
  return functions_of_counters(key, row).counter_add(key, row, len, ...)
end

local function counter_get(key, row, idx)
  return functions_of_counters(key, row).counter_get(key, row, idx)
end

local function counter_fields(key, row, is_damaged)
  return functions_of_counters(key, row).counter_fields(key, row, is_damaged)
end

local function counter_reset(key, row, idx)
  return functions_of_counters(key, row).counter_reset(key, row, idx)
end

local function counters_text(key, row)
  return functions_of_counters(key, row).counters_text(key, row)
end

local function counter_delete_require_permission(key, row)
  functions_of_counters(key, row).counter_delete_require_permission(key, row)
end

local function counter_delete(key, row)
  functions_of_counters(key, row).counter_delete(key, row)
end

local table_mismatch, table_require_permission, table_add = in_module.table_mismatch, in_module.table_require_permission, in_module.table_add
local table_rows, table_ids, table_set, table_delete = in_module.table_rows, in_module.table_ids, in_module.table_set, in_module.table_delete

local function ids_contain(key, id)
  return functions_of(key, 'set').ids_contain(key, id)
end

local function ids_mismatch(key)
  return functions_of(key, 'set').ids_mismatch(key)
end

local function ids_card(key)
  return functions_of(key, 'set').ids_card(key)
end

local function ids_require_permission(operation, key)
  functions_of(key, 'set').ids_require_permission(operation, key)
end

local function ids_add(key, ids)
  functions_of(key, 'set').ids_add(key, ids)
end

local function ids_remove(key, id)
  functions_of(key, 'set').ids_remove(key, id)
end

local function has_ids_pages(key)
  return functions_of(key, 'set').has_ids_pages(key)
end

local ids_page = in_module.ids_page
