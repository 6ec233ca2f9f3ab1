//! Converts all keys of a pattern to the module's types, in place, while the service runs.
//!
//! SCAN finds the keys, and a pipeline sends one ADOPT command per key. The command is one step: it replaces a String, Hash
//! or Set by an object with the same counts or ids and the same time to live. Keys that cannot be converted without loss
//! do not change and are listed at the end. You can stop and restart the program at any time. `docs/migrating.md`
//! describes what writers must do.
//!
//!     cargo run --release --example migrate -- 'post:*' CINT.ADOPT FIELDS reads likes comments
//!     cargo run --release --example migrate -- 'cnt:*' CINT.ADOPT LEN 5 FORCE
//!     cargo run --release --example migrate -- 'likes:*' RBM.ADOPT
//!
//! `demo N` creates N keys of its own (a million by default), converts them during writes, checks that no count is lost,
//! and removes them.
//!
//!     cargo run --release --example migrate -- demo
//!
//! The server is `REDIS_URL`, by default redis://127.0.0.1:6379. In a cluster run it for each primary.

mod adopt;
mod demo;

use std::error::Error;
use std::process::ExitCode;

use adopt::Migration;

const USAGE: &str = "usage: migrate PATTERN CINT.ADOPT LEN n [WIDTH 4|5|8] [FORCE]
       migrate PATTERN CINT.ADOPT FIELDS name [name ...]
       migrate PATTERN RBM.ADOPT
       migrate demo [KEYS]";

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let client = redis::Client::open(url)?;
    match words.as_slice() {
        ["demo"] => demo::run(&client, 1_000_000)?,
        ["demo", keys] => demo::run(&client, keys.parse()?)?,
        [pattern, command @ ..] => {
            let Some(migration) = Migration::new(pattern, command) else {
                eprintln!("{USAGE}");
                return Ok(ExitCode::from(2));
            };
            let result = migration.run(&mut client.get_connection()?)?;
            result.print();
            if !result.left.is_empty() {
                return Ok(ExitCode::FAILURE);
            }
        }
        [] => {
            eprintln!("{USAGE}");
            return Ok(ExitCode::from(2));
        }
    }
    Ok(ExitCode::SUCCESS)
}
