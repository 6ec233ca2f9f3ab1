//! Going through the keys, round after round, until nothing is left to move.

use std::collections::BTreeMap;

use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use redis::{Connection, RedisResult, cmd};

/// How many keys SCAN looks at in a call. The ADOPTs of those that it finds go to the server in one pipeline; the server
/// serves everybody else between any two of them.
const BATCH: usize = 1000;

/// What is to be moved, and how.
pub struct Migration {
    pattern: String,
    command: String,
    arguments: Vec<String>,
    /// The type of the keys before.
    from: &'static str,
}

/// What became of the keys.
#[derive(Default)]
pub struct Outcome {
    /// How many were moved.
    pub moved: u64,
    /// Those that stay as they are, with the server's reason.
    pub left: BTreeMap<Vec<u8>, String>,
}

impl Migration {
    /// Understands `CINT.ADOPT LEN ...`, `CINT.ADOPT FIELDS ...` and `RBM.ADOPT`.
    pub fn new(pattern: &str, words: &[&str]) -> Option<Migration> {
        let (command, arguments) = words.split_first()?;
        let option = arguments.first().map(|word| word.to_ascii_uppercase());
        let from = match (command.to_ascii_uppercase().as_str(), option.as_deref()) {
            ("CINT.ADOPT", Some("LEN")) => "string",
            ("CINT.ADOPT", Some("FIELDS")) => "hash",
            ("RBM.ADOPT", None) => "set",
            _ => return None,
        };
        Some(Migration {
            pattern: pattern.to_owned(),
            command: (*command).to_owned(),
            arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
            from,
        })
    }

    /// Moves everything. SCAN may miss keys that appear while it runs, and a writer may make an old one then: so round
    /// after round, until one finds nothing to move.
    pub fn run(&self, con: &mut Connection) -> RedisResult<Outcome> {
        let mut outcome = Outcome::default();
        for round in 1.. {
            let before = outcome.moved;
            outcome.left.clear();
            self.round(con, round, &mut outcome)?;
            if outcome.moved == before {
                break;
            }
        }
        Ok(outcome)
    }

    fn round(&self, con: &mut Connection, round: u32, outcome: &mut Outcome) -> RedisResult<()> {
        let keys: u64 = cmd("DBSIZE").query(con)?;
        let bar = ProgressBar::new(keys).with_style(style());
        bar.set_prefix(format!("round {round}"));
        let mut cursor = 0_u64;
        loop {
            let (next, found): (u64, Vec<Vec<u8>>) = cmd("SCAN")
                .arg((cursor, "MATCH", &self.pattern, "COUNT", BATCH))
                .arg(("TYPE", self.from))
                .query(con)?;
            self.adopt(con, &found, outcome)?;
            bar.set_message(format!("{} moved", HumanCount(outcome.moved)));
            bar.set_position(keys.min(scanned(next, keys)));
            cursor = next;
            if cursor == 0 {
                bar.finish();
                return Ok(());
            }
        }
    }

    /// One pipeline. An error is that of one key; the others are moved all the same.
    fn adopt(
        &self,
        con: &mut Connection,
        keys: &[Vec<u8>],
        outcome: &mut Outcome,
    ) -> RedisResult<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let mut pipe = redis::pipe();
        pipe.ignore_errors();
        for key in keys {
            pipe.cmd(&self.command).arg(key).arg(&self.arguments);
        }
        let replies: Vec<RedisResult<()>> = pipe.query(con)?;
        for (key, reply) in keys.iter().zip(replies) {
            match reply {
                Ok(()) => outcome.moved += 1,
                // Deleted since SCAN has seen it.
                Err(error) if error.detail() == Some("no such key") => {}
                Err(error) => drop(outcome.left.insert(key.clone(), error.to_string())),
            }
        }
        Ok(())
    }
}

impl Outcome {
    /// Tells it to the user.
    pub fn print(&self) {
        println!("{} keys moved", self.moved);
        for (key, why) in &self.left {
            println!("left as it is: {}: {why}", String::from_utf8_lossy(key));
        }
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{prefix} [{bar:40}] {percent:>3}% {msg}, {elapsed}")
        .expect("the template is well formed")
        .progress_chars("=> ")
}

/// About how many of the keys SCAN has seen. It counts its cursors with the bits in reverse order, so the reversed
/// cursor is the part of the table that lies behind; 0 is the end. (In a cluster of Redis 7.4 or newer it is only rough.)
fn scanned(cursor: u64, keys: u64) -> u64 {
    if cursor == 0 {
        return keys;
    }
    let part = cursor.reverse_bits() as f64 / 2_f64.powi(64);
    (part * keys as f64) as u64
}
