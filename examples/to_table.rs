//! Moves counters from one key per entity into tables, while the service runs.
//!
//! Keys are CountInts, or Hashes of decimal counters. A key's name is the pattern's text up to its first wildcard, followed
//! by a decimal number, the row's id. A script moves each key in one step: it adds the key's counters to the row and
//! deletes the key, or changes neither. Because it *adds*, writers may switch to `CTAB.INCRBY` at any time; increments of
//! the row are kept. If an old writer creates a moved key again, the next round moves it again. Until all writers are
//! switched, readers read the key, if it exists, and the row in one `MULTI`, and add both.
//!
//!     cargo run --release --example to_table -- 'post:*' posts 1000000
//!     cargo run --release --example to_table -- 'post:*' posts 1000000 reads likes comments
//!
//! moves `post:7` to row 7 of the table `posts:0`, `post:1000007` to row 1000007 of `posts:1`, and so on. The last
//! arguments are the names of a Hash's fields, in the order of the row's counters. Keys that cannot be moved without loss
//! (another type, a time to live, a field without a name) do not change and are listed at the end, and so is
//! `post:comment:7`, which is not the post of row 7. You can stop and restart the program at any time.
//! Use separate tables per pattern: `post:*` and `user:*` both have an id 7.
//!
//! The server is `REDIS_URL`, by default redis://127.0.0.1:6379. In a cluster a key and its table are in different slots
//! unless they have the same hash tag; docs/choosing.md describes how a client moves them.

use std::collections::{BTreeMap, HashSet};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use redis::{Connection, RedisResult, cmd};

/// KEYS: the table, then the old keys. ARGV: the number of names, the names, then an id per old key.
/// Returns the number of moved keys, and the keys that were not moved.
const MOVE: &str = r"
local moved, left, names = 0, {}, {}
for i = 1, tonumber(ARGV[1]) do names[i] = ARGV[1 + i] end
local function counters(key)
    local kind = redis.call('TYPE', key).ok
    if kind == 'CountInt5' and redis.call('CINT.LEN', key) <= 2000 then return redis.call('CINT.DUMP', key) end
    if kind ~= 'hash' or #names == 0 then return nil end
    -- A field's own time to live (Redis 7.4 and newer) would be lost.
    local times = redis.pcall('HPEXPIRETIME', key, 'FIELDS', #names, unpack(names))
    for _, time in ipairs(times.err and {} or times) do
        if time >= 0 then return nil end
    end
    local values, found = redis.call('HMGET', key, unpack(names)), 0
    for i, value in ipairs(values) do
        if value then found = found + 1 else values[i] = '0' end
    end
    -- The count of a field without a name would be lost.
    if found ~= redis.call('HLEN', key) then return nil end
    return values
end
for i = 2, #KEYS do
    local key, id = KEYS[i], ARGV[#names + i]
    if redis.call('EXISTS', key) == 1 then
        local values = redis.call('PTTL', key) == -1 and counters(key)
        local call = values and {'CTAB.BATCHINCR', KEYS[1], id, 'LEN', #values, 'OVERFLOW', 'FAIL'}
        for idx, value in ipairs(values or {}) do
            call[#call + 1] = idx - 1
            call[#call + 1] = value
            -- Counters are never negative, and CTAB.BATCHINCR would subtract a negative value.
            if string.sub(value, 1, 1) == '-' then call = nil break end
        end
        local answer = call and redis.pcall(unpack(call))
        if answer and not answer.err then
            redis.call('DEL', key)
            moved = moved + 1
        else
            left[#left + 1] = key
        end
    end
end
return {moved, left}
";

/// The COUNT of a SCAN. A script then moves the keys of one table and blocks the server for some milliseconds at most.
const PAGE: usize = 100;

/// Keys with the ids of their rows.
type Keys = Vec<(Vec<u8>, u64)>;

struct Move {
    pattern: String,
    /// The text before the id in a key's name.
    prefix: String,
    table: String,
    /// The number of ids per table.
    rows: u64,
    names: Vec<String>,
    /// The SHA-1 of the loaded script.
    script: String,
}

fn main() -> RedisResult<ExitCode> {
    let args = std::env::args_os().skip(1).map(|arg| arg.into_string());
    let Ok(args) = args.collect::<Result<Vec<String>, _>>() else {
        return Ok(usage());
    };
    let [pattern, table, rows, names @ ..] = args.as_slice() else {
        return Ok(usage());
    };
    let Some(rows) = rows.parse().ok().filter(|&rows| rows > 0) else {
        return Ok(usage());
    };
    let mut seen = HashSet::new();
    if let Some(name) = names.iter().find(|name| !seen.insert(*name)) {
        // Its count would be added to two counters of the row.
        eprintln!("the field {name} is named twice");
        return Ok(ExitCode::from(2));
    }
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let mut con = redis::Client::open(url)?.get_connection()?;
    let what = Move {
        script: cmd("SCRIPT").arg("LOAD").arg(MOVE).query(&mut con)?,
        prefix: prefix(pattern),
        pattern: pattern.clone(),
        table: table.clone(),
        rows,
        names: names.to_vec(),
    };
    let mut all = 0;
    let left = loop {
        let (moved, left) = what.round(&mut con)?;
        all += moved;
        // Old writers may create keys during a round: repeat until a round moves none.
        if moved == 0 {
            break left;
        }
    };
    println!("{all} keys moved");
    what.tell(&left);
    Ok(if left.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn usage() -> ExitCode {
    eprintln!("usage: to_table PATTERN TABLE ROWS_PER_TABLE [FIELD ...]");
    ExitCode::from(2)
}

/// The common prefix of all names of a pattern, without trailing digits, which are a part of the ids.
fn prefix(pattern: &str) -> String {
    let (mut text, mut chars) = (String::new(), pattern.chars());
    while let Some(c) = chars.next().filter(|c| !"*?[".contains(*c)) {
        // A backslash escapes a wildcard; at the end it is an ordinary character.
        text.push(match c {
            '\\' => chars.next().unwrap_or(c),
            _ => c,
        });
    }
    text.truncate(text.trim_end_matches(|c: char| c.is_ascii_digit()).len());
    text
}

/// A key as text, with escapes for bytes that are not UTF-8.
fn shown(key: &[u8]) -> String {
    let chunks = key.utf8_chunks();
    chunks.fold(String::new(), |text, chunk| {
        text + &format!("{}{}", chunk.valid(), chunk.invalid().escape_ascii())
    })
}

impl Move {
    /// The row's id, if the key's name is the prefix and a canonical number; `post:07` is not.
    fn id(&self, key: &[u8]) -> Option<u64> {
        let digits = str::from_utf8(key.strip_prefix(self.prefix.as_bytes())?).ok()?;
        let id: u64 = digits.parse().ok()?;
        (id.to_string() == digits).then_some(id)
    }

    /// Prints the keys that were not moved.
    fn tell(&self, left: &[Vec<u8>]) {
        if left.is_empty() {
            return;
        }
        let others = left.iter().filter(|key| self.id(key).is_none()).count();
        println!(
            "{} left; the names of {others} are not \"{}\" and a number",
            left.len(),
            self.prefix
        );
        for key in left {
            println!("left as it is: {}", shown(key));
        }
    }

    /// Moves every key that one full SCAN finds. Returns the number of moved keys, and the other keys.
    fn round(&self, con: &mut Connection) -> RedisResult<(u64, Vec<Vec<u8>>)> {
        let keys: u64 = cmd("DBSIZE").query(con)?;
        let style =
            ProgressStyle::with_template("{bar:40} {pos}/{len} keys, {per_sec}, {eta} left");
        let bar = ProgressBar::new(keys)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let (mut moved, mut left, mut cursor) = (0, Vec::new(), 0u64);
        loop {
            let mut scan = cmd("SCAN");
            scan.arg(cursor)
                .arg("MATCH")
                .arg(&self.pattern)
                .arg("COUNT")
                .arg(PAGE);
            let (next, page): (u64, Vec<Vec<u8>>) = scan.query(con)?;
            for (table, keys) in self.by_table(page, &mut left) {
                let (some, others) = self.move_keys(con, &table, &keys)?;
                moved += some;
                left.extend(others);
            }
            bar.inc(PAGE as u64);
            cursor = next;
            if cursor == 0 {
                bar.finish_and_clear();
                left.sort();
                left.dedup(); // SCAN may return a key twice
                return Ok((moved, left));
            }
        }
    }

    /// Groups a page of keys by table. Keys without an id go to `left`.
    fn by_table(&self, page: Vec<Vec<u8>>, left: &mut Vec<Vec<u8>>) -> BTreeMap<String, Keys> {
        let mut tables = BTreeMap::<String, Keys>::new();
        for key in page {
            let Some(id) = self.id(&key) else {
                left.push(key);
                continue;
            };
            let table = format!("{}:{}", self.table, id / self.rows);
            tables.entry(table).or_default().push((key, id));
        }
        tables
    }

    fn move_keys(
        &self,
        con: &mut Connection,
        table: &str,
        keys: &[(Vec<u8>, u64)],
    ) -> RedisResult<(u64, Vec<Vec<u8>>)> {
        let mut call = cmd("EVALSHA");
        call.arg(&self.script).arg(1 + keys.len()).arg(table);
        for (key, _) in keys {
            call.arg(key);
        }
        call.arg(self.names.len()).arg(&self.names);
        for (_, id) in keys {
            call.arg(*id);
        }
        call.query(con)
    }
}
