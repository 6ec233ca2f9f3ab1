//! Damages data in Redis behind the back of countd. Each act is one script, which returns what it has changed.

use super::workload::Random;
use countint_tests::{Client, Server, Value, reply};
use std::collections::BTreeMap;

/// What an act does to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Sets a field of a row, or adds a member.
    Set,
    /// Removes a row, a field or a member.
    Remove,
    /// Deletes the key.
    Delete,
    /// Replaces the key with one of another type.
    Replace,
    /// Keeps only the first counters of an object or of every row.
    Truncate,
}

/// One value that an act has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: String,
    /// The row, field or member; empty for an object.
    pub row: String,
    /// The index of the counter.
    pub idx: usize,
    /// The value afterwards minus the value before.
    pub difference: i64,
}

/// KEYS: the key. ARGV: the act, the row, the index, the value, the number of counters that a truncated object keeps. Reads everything
/// before and after the act. Reply: of each changed value the row, the index and the difference.
const SCRIPT: &str = r#"
local key, act, row, idx, value, keep = KEYS[1], unpack(ARGV)

local function read()
  local kind, rows = redis.call('TYPE', key).ok, {}
  if kind == 'CountTab5' then
    for _, id in ipairs(redis.call('CTAB.SCAN', key, 0, 'COUNT', 1000000)[2]) do
      rows[id] = redis.call('CTAB.MGET', key, id)[1]
    end
  elseif kind == 'CountInt5' then
    rows[''] = redis.call('CINT.DUMP', key)
  elseif kind == 'string' then
    rows[''] = {}
    for i = 0, math.floor(redis.call('STRLEN', key) / 5) - 1 do
      rows[''][i + 1] = redis.call('BITFIELD_RO', key, 'GET', 'u40', '#' .. i)[1]
    end
  elseif kind == 'hash' then
    local fields = redis.call('HGETALL', key)
    for i = 1, #fields, 2 do
      rows[fields[i]] = { tonumber(fields[i + 1]) }
    end
  else
    local members = {}
    if kind == 'zset' then
      members = redis.call('ZRANGE', key, 0, -1)
    elseif kind == 'set' then
      members = redis.call('SMEMBERS', key)
    elseif kind == 'RoaringBM' then
      members = redis.call('RBM.SCAN', key, 0, 'COUNT', 1000000)[2]
    end
    for _, member in ipairs(members) do
      rows[member] = { 1 }
    end
  end
  return kind, rows
end

local function set(kind)
  if kind == 'CountTab5' then
    redis.call('CTAB.SET', key, row, 'LEN', idx + 1, idx, value)
  elseif kind == 'CountInt5' then
    redis.call('CINT.SET', key, 'LEN', idx + 1, idx, value)
  elseif kind == 'string' then
    redis.call('BITFIELD', key, 'SET', 'u40', '#' .. idx, value)
  elseif kind == 'hash' then
    redis.call('HSET', key, row, value)
  elseif kind == 'zset' then
    redis.call('ZADD', key, value, row)
  elseif kind == 'set' then
    redis.call('SADD', key, row)
  elseif kind == 'RoaringBM' then
    redis.call('RBM.ADD', key, row)
  end
end

local REMOVE = { CountTab5 = 'CTAB.DEL', hash = 'HDEL', zset = 'ZREM', set = 'SREM', RoaringBM = 'RBM.REM' }

local function truncate(kind, rows)
  if kind == 'string' then
    redis.call('SET', key, redis.call('GETRANGE', key, 0, 5 * keep - 1))
    return
  end
  redis.call('DEL', key)
  for id, counters in pairs(rows) do
    local values = {}
    for i = 1, math.min(keep, #counters) do
      values[#values + 1] = i - 1
      values[#values + 1] = counters[i]
    end
    if kind == 'CountTab5' then
      redis.call('CTAB.SET', key, id, 'LEN', keep, unpack(values))
    else
      redis.call('CINT.SET', key, 'LEN', keep, unpack(values))
    end
  end
end

local kind, before = read()
if kind == 'none' then
  return {}
elseif act == 'Set' then
  set(kind)
elseif act == 'Remove' then
  if REMOVE[kind] then
    redis.call(REMOVE[kind], key, row)
  end
elseif act == 'Truncate' then
  truncate(kind, before)
else
  redis.call('DEL', key)
  if act == 'Replace' then
    redis.call('RPUSH', key, 'x')
  end
end
local _, after = read()
local reply = {}
local function compare(id, one, other)
  for i = 1, math.max(#one, #other) do
    local difference = (other[i] or 0) - (one[i] or 0)
    if difference ~= 0 then
      reply[#reply + 1] = id
      reply[#reply + 1] = i - 1
      reply[#reply + 1] = difference
    end
  end
end
for id, one in pairs(before) do
  compare(id, one, after[id] or {})
end
for id, other in pairs(after) do
  if not before[id] then
    compare(id, {}, other)
  end
end
return reply
"#;

/// Where an act happens, and the values that it needs.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The key.
    pub key: String,
    /// The row, field or member.
    pub row: String,
    /// The index of a counter.
    pub idx: usize,
    /// The value to set.
    pub value: u64,
    /// The number of counters that a truncated object keeps.
    pub keep: usize,
}

/// Does one act, in one step. Returns what it has changed.
pub fn act(client: &mut Client, act: Act, place: &Place) -> Vec<Change> {
    let name = format!("{act:?}");
    let numbers = [place.idx as u64, place.value, place.keep as u64].map(|n| n.to_string());
    let [idx, value, keep] = numbers.each_ref().map(String::as_str);
    let words = [
        "EVAL", SCRIPT, "1", &place.key, &name, &place.row, idx, value, keep,
    ];
    let reply = client.call(&words);
    assert!(
        !matches!(reply, Value::ServerError(_)),
        "{act:?} {place:?}: {reply:?}"
    );
    let changed = reply::array(reply);
    let change = |parts: &[Value]| Change {
        key: place.key.clone(),
        row: reply::text(parts[0].clone()),
        idx: reply::int(parts[1].clone()) as usize,
        difference: reply::int(parts[2].clone()),
    };
    changed.chunks(3).map(change).collect()
}

/// A random key that matches a pattern.
pub fn any_key(client: &mut Client, random: &mut Random, pattern: &str) -> Option<String> {
    let keys = reply::array(client.call(&["KEYS", pattern])).into_iter();
    let mut found: Vec<String> = keys.map(reply::text).collect();
    found.sort_unstable();
    let at = random.below(found.len().max(1) as u64);
    found.into_iter().nth(at as usize)
}

/// A random row, field or member of a key; empty for an object.
pub fn any_row(client: &mut Client, random: &mut Random, key: &str) -> String {
    let kind = reply::text(client.call(&["TYPE", key]));
    let rows =
        match kind.as_str() {
            "CountTab5" => reply::array(client.call(&["CTAB.SCAN", key, "0", "COUNT", "1000000"]))
                .swap_remove(1),
            "RoaringBM" => reply::array(client.call(&["RBM.SCAN", key, "0", "COUNT", "1000000"]))
                .swap_remove(1),
            "hash" => client.call(&["HKEYS", key]),
            "zset" => client.call(&["ZRANGE", key, "0", "-1"]),
            "set" => client.call(&["SMEMBERS", key]),
            _ => return String::new(),
        };
    let rows = reply::array(rows);
    let at = random.below(rows.len().max(1) as u64) as usize;
    rows.into_iter()
        .nth(at)
        .map(reply::text)
        .unwrap_or_default()
}

/// The name under which [`audited`] has a value of a total or of counts by day: the number, the ID of the entity and the metric. `None` for
/// other keys.
pub fn number_of_days(key: &str, row: &str) -> Option<(String, String, String)> {
    let key = key.split(":{").next().unwrap_or(key);
    let parts: Vec<&str> = key.split(':').collect();
    let (number, eid, metric) = match parts.as_slice() {
        ["h", "agg", metric, _, eid, ..] => ("days", *eid, *metric),
        ["tot" | "toth", metric, ..] => ("total", row, *metric),
        _ => return None,
    };
    Some((number.to_owned(), eid.to_owned(), metric.to_owned()))
}

/// The sum of the differences of all entries of the audit, by key, row and metric; those of totals and counts by day by
/// [their number](number_of_days).
pub fn audited<'s>(
    servers: impl IntoIterator<Item = &'s Server>,
) -> BTreeMap<(String, String, String), i64> {
    let mut sums = BTreeMap::new();
    for server in servers {
        let mut client = server.client();
        for stream in reply::array(client.ok("KEYS x:audit:cntfix*")) {
            let stream = reply::text(stream);
            for entry in reply::array(client.call(&["XRANGE", &stream, "-", "+"])) {
                let fields = reply::array(reply::array(entry).swap_remove(1));
                let fields: Vec<String> = fields.into_iter().map(reply::text).collect();
                let pairs = fields.chunks(2);
                let fields: BTreeMap<&str, &str> = pairs
                    .map(|pair| (pair[0].as_str(), pair[1].as_str()))
                    .collect();
                let field = |name: &str| fields.get(name).copied().unwrap_or_default().to_owned();
                let difference: i64 = field("difference").parse().expect("a number");
                let of = match field("number").as_str() {
                    "days" | "total" => (field("number"), field("eid"), field("metric")),
                    _ => (field("key"), field("row"), field("metric")),
                };
                *sums.entry(of).or_default() += difference;
            }
        }
    }
    sums
}
