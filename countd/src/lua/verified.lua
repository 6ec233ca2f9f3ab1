-- The section of a commit that audits corrections of timelines (sections.lua).
--
-- A check of the log has read whether a fact exists in the step that appended it. If the timeline of the user says otherwise when the entry is
-- reached, the timeline was wrong. write_timelines corrects it, and this section appends an entry to the audit: the number of facts of the
-- timeline before and after.
--
-- Arguments: 0, or 1 if the batch has such checks, the maximum length of the audit, and the time. Key: the audit.

-- Appends the corrections of one timeline.
local function audit_timeline(state, timeline, append)
  local count = (timeline.count or 0) + (timeline.older_count or 0)
  for at = timeline.at, timeline.last, 2 do
    local id, time = ARGV[at], ARGV[at + 1]
    if (time == '+' or time == '~') and timeline_contains(timeline, id) ~= (time == '+') then
      local metric, _, uid = timeline.newest:match('^rtl:([^:]+):([^:]+):([^:]+)')
      local after = count + (time == '+' and 1 or -1)
      append(state.audit, 'MAXLEN', '~', state.retain, '*', audit_entry(count, after, {
        'key', timeline.newest, 'row', id, 'etype', 'user', 'eid', uid or '', 'metric', metric or '', 'source', 'reverse',
        'round', '0', 'traceId', '-', 'ts', state.ts,
      }))
      count = after
    end
  end
end

SECTIONS[#SECTIONS + 1] = {
  read = function(cursor)
    if take(cursor) == '0' then
      return {}
    end
    local state = { audit = take_key(cursor), retain = take(cursor), ts = take(cursor) }
    audit_require_permission(state.audit, 1)
    require_permission('XDEL', state.audit, '0-1')
    return state
  end,
  append = function(state, append)
    for _, timeline in ipairs(state.audit and all_timelines or {}) do
      audit_timeline(state, timeline, append)
    end
  end,
}
