//! Rounds over all keys until a round converts none.

use std::collections::BTreeMap;

use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use redis::{Connection, RedisResult, cmd};

/// The COUNT of a SCAN. The ADOPT commands of its keys are one pipeline; the server runs commands of other clients in
/// between.
const BATCH: usize = 1000;

/// The keys to convert, and the command for them.
pub struct Migration {
    pattern: String,
    command: String,
    arguments: Vec<String>,
    /// The type of the keys before the conversion.
    from: &'static str,
}

/// The result for all keys.
#[derive(Default)]
pub struct Outcome {
    /// The number of converted keys.
    pub moved: u64,
    /// The keys that were not converted, with the server's reason.
    pub left: BTreeMap<Vec<u8>, String>,
}

impl Migration {
    /// Parses `CINT.ADOPT LEN ...`, `CINT.ADOPT FIELDS ...` and `RBM.ADOPT`.
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

    /// Converts all keys. SCAN may miss keys that a writer creates while it runs, so it repeats until a round converts
    /// none.
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

    /// Sends one pipeline. An error concerns one key; the other keys are converted.
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
                // Deleted after SCAN returned it.
                Err(error) if error.detail() == Some("no such key") => {}
                Err(error) => drop(outcome.left.insert(key.clone(), error.to_string())),
            }
        }
        Ok(())
    }
}

impl Outcome {
    /// Prints the result.
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

/// An estimate of the keys that SCAN has visited. SCAN increments cursors with reversed bits, so the reversed cursor is
/// the visited fraction of the table; 0 is the end. In a cluster of Redis 7.4 or newer the estimate is rough.
fn scanned(cursor: u64, keys: u64) -> u64 {
    if cursor == 0 {
        return keys;
    }
    let part = cursor.reverse_bits() as f64 / 2_f64.powi(64);
    (part * keys as f64) as u64
}
