//! Moves all keys of a pattern to the module's types, in place, while the service runs.
//!
//! The keys come from SCAN, a thousand at a time; a pipeline then sends one ADOPT command for each. That command is one
//! step: before it the key is the old String, Hash or Set, after it the new object with the same counts or ids and the
//! same time to live, and no write can fall in between. What cannot be moved without loss stays as it is, and is told at
//! the end. The program can be stopped and started again at any moment. `docs/migrating.md` says what writers do
//! meanwhile.
//!
//!     cargo run --release --example migrate -- 'post:*' CINT.ADOPT FIELDS reads likes comments
//!     cargo run --release --example migrate -- 'cnt:*' CINT.ADOPT LEN 5 FORCE
//!     cargo run --release --example migrate -- 'likes:*' RBM.ADOPT
//!
//! To see it work: `demo N` makes N keys of its own (a million if N is not given), moves them while writers go on,
//! checks that no count is lost, and removes them.
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
