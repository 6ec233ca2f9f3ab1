//! Converts Hashes of counters to CountInts, key by key, while the service runs.
//!
//! `CINT.ADOPT key FIELDS name ...` converts a Hash of decimal counters to a CountInt in one step, at the same key, and
//! keeps its time to live. It is safe to repeat: the reply for a CountInt is OK. A Hash that cannot be converted
//! without loss (an unnamed field, a value that is not a counter) is refused and does not change.
//!
//!     cargo run --example import_hashes
//!
//! The server is `REDIS_URL`, by default redis://127.0.0.1:6379. The keys are removed at the end.

use redis::{Commands, Connection, RedisResult, cmd};

const PREFIX: &str = "demo:import_hashes:";
/// The names of the Hash's fields, in the order of the CountInt's fields.
const NAMES: [&str; 3] = ["reads", "likes", "comments"];

fn main() -> RedisResult<()> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let mut con = redis::Client::open(url)?.get_connection()?;
    remove(&mut con)?;
    let result = create_hashes(&mut con).and_then(|()| import(&mut con));
    remove(&mut con)?;
    result
}

fn create_hashes(con: &mut Connection) -> RedisResult<()> {
    let hash = |post: u32| format!("{PREFIX}{post}");
    con.hset_multiple::<_, _, _, ()>(hash(1), &[("reads", 1200), ("likes", 31), ("comments", 4)])?;
    con.hset_multiple::<_, _, _, ()>(hash(2), &[("reads", 7)])?; // missing fields become 0
    con.expire::<_, ()>(hash(2), 3600)?;
    con.hset_multiple::<_, _, _, ()>(hash(3), &[("reads", "9"), ("title", "no counter")])
}

fn import(con: &mut Connection) -> RedisResult<()> {
    for round in ["first", "second"] {
        println!("{round} round");
        // SCAN may miss keys that are created while it runs. Repeat it once all writers use CINT commands.
        for key in keys(con)? {
            match cmd("CINT.ADOPT").arg((&key, "FIELDS", &NAMES)).exec(con) {
                Ok(()) => println!("  {key}: {:?}", fields(con, &key)?),
                Err(error) if error.is_io_error() => return Err(error),
                Err(error) => println!("  {key}: left as it is: {error}"),
            }
        }
    }
    let ttl: i64 = con.ttl(format!("{PREFIX}2"))?;
    println!("time to live of {PREFIX}2: {ttl} s");
    Ok(())
}

fn fields(con: &mut Connection, key: &str) -> RedisResult<Vec<u64>> {
    cmd("CINT.DUMP").arg(key).query(con)
}

fn keys(con: &mut Connection) -> RedisResult<Vec<String>> {
    let mut keys: Vec<String> = con
        .scan_match(format!("{PREFIX}*"))?
        .collect::<RedisResult<_>>()?;
    keys.sort();
    Ok(keys)
}

fn remove(con: &mut Connection) -> RedisResult<()> {
    for key in keys(con)? {
        con.unlink::<_, ()>(key)?;
    }
    Ok(())
}
