//! Moves counters from a key for each entity into tables of many rows, while the service runs.
//!
//! Keys are CountInts, or Hashes of decimal counters. A key's name is the pattern's text up to its first wildcard, and
//! then nothing but a decimal number, the row's id. A script moves each key in one step: it adds the key's counters to the
//! row and deletes the key, or leaves both as they are. Since it *adds*, writers may go over to `CTAB.INCRBY` at any time,
//! before, while or after the keys move: what they have counted in the row stays. Old writers may go on too; a key that
//! they create anew is moved by the next round. Until the last one is gone, a reader reads both in one `MULTI` and adds
//! them up: the key's counter, if there is one, and the row's.
//!
//!     cargo run --release --example to_table -- 'post:*' posts 1000000
//!     cargo run --release --example to_table -- 'post:*' posts 1000000 reads likes comments
//!
//! moves `post:7` to row 7 of the table `posts:0`, `post:1000007` to row 1000007 of `posts:1` and so on; the last words are
//! the names of a Hash's fields, in the order of the row's counters. What cannot be moved without loss (another type, a
//! time to live, a field without a name) stays as it is, and is told at the end; so does `post:comment:7`, which is not
//! the post of row 7. The program can be stopped and started again at any moment.
//! Tables belong to one pattern: `post:*` and `user:*` both have a 7, so give users tables of another name.
//!
//! The server is `REDIS_URL`, by default redis://127.0.0.1:6379. In a cluster a key and its table lie in different slots
//! unless they have the same hash tag; there, move through the client instead: docs/choosing.md says how.

use std::collections::{BTreeMap, HashSet};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use redis::{Connection, RedisResult, cmd};

/// Keys: the table, then the old keys. Arguments: the number of names, the names, then an id for each old key.
/// Returns how many were moved, and the keys that were not.
const MOVE: &str = r"
local moved, left, names = 0, {}, {}
for i = 1, tonumber(ARGV[1]) do names[i] = ARGV[1 + i] end
local function counters(key)
    local kind = redis.call('TYPE', key).ok
    if kind == 'CountInt5' and redis.call('CINT.LEN', key) <= 2000 then return redis.call('CINT.DUMP', key) end
    if kind ~= 'hash' or #names == 0 then return nil end
    -- A field's own time to live (servers older than Redis 7.4 know none) would be lost.
    local times = redis.pcall('HPEXPIRETIME', key, 'FIELDS', #names, unpack(names))
    for _, time in ipairs(times.err and {} or times) do
        if time >= 0 then return nil end
    end
    local values, found = redis.call('HMGET', key, unpack(names)), 0
    for i, value in ipairs(values) do
        if value then found = found + 1 else values[i] = '0' end
    end
    -- Every field must have been named, or a count would be lost.
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
            -- A counter is never negative; subtracting one would not tell.
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

/// Keys that one SCAN looks at. A script then moves those of a table, holding up nobody for more than some milliseconds.
const PAGE: usize = 100;

/// Keys of a table with their ids.
type Keys = Vec<(Vec<u8>, u64)>;

struct Move {
    pattern: String,
    /// What comes before the id in a key's name.
    prefix: String,
    table: String,
    /// Ids of a table.
    rows: u64,
    names: Vec<String>,
    /// The name by which the server knows the script.
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
        // Its count would be in two counters of the row.
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
        // Keys that old writers create meanwhile: once more, until none is found.
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

/// The text that all names of a pattern begin with, without a number at its end: that is a part of the ids.
fn prefix(pattern: &str) -> String {
    let (mut text, mut chars) = (String::new(), pattern.chars());
    while let Some(c) = chars.next().filter(|c| !"*?[".contains(*c)) {
        // A backslash makes a wildcard an ordinary character; at the end it is one itself.
        text.push(match c {
            '\\' => chars.next().unwrap_or(c),
            _ => c,
        });
    }
    text.truncate(text.trim_end_matches(|c: char| c.is_ascii_digit()).len());
    text
}

/// A key as text, also one that is not UTF-8.
fn shown(key: &[u8]) -> String {
    let chunks = key.utf8_chunks();
    chunks.fold(String::new(), |text, chunk| {
        text + &format!("{}{}", chunk.valid(), chunk.invalid().escape_ascii())
    })
}

impl Move {
    /// The row's id, if the key's name is the prefix and a number. `post:07` is not the name of row 7.
    fn id(&self, key: &[u8]) -> Option<u64> {
        let digits = str::from_utf8(key.strip_prefix(self.prefix.as_bytes())?).ok()?;
        let id: u64 = digits.parse().ok()?;
        (id.to_string() == digits).then_some(id)
    }

    /// Counts and names the keys that stay.
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

    /// Moves every key that a SCAN of all keys finds: how many, and those that stay.
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
                left.dedup(); // SCAN may tell of a key twice
                return Ok((moved, left));
            }
        }
    }

    /// Sorts a page of keys by the tables that they go to; those without an id have none.
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
