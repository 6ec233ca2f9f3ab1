//! A like button: a double click counts once.
//!
//! An exact set (RBM) holds the ids of the users who liked the post, and a field of the post's CountInt their number.
//! `RBM.MARK` and `RBM.UNMARK` change both in one step. The counter changes only if the set changes, and no client sees
//! one change without the other.
//!
//!     cargo run --example like_button
//!
//! The server is `REDIS_URL`, by default redis://127.0.0.1:6379. The keys are removed at the end.

use redis::{Commands, Connection, RedisResult, cmd};

/// The post's counters: field 0 counts reads, field 1 likes.
const COUNTERS: &str = "demo:like_button:post:7";
/// The ids of the users who like the post.
const LIKED_BY: &str = "demo:like_button:post:7:liked_by";
const LIKES: usize = 1;

fn main() -> RedisResult<()> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let mut con = redis::Client::open(url)?.get_connection()?;
    con.unlink::<_, ()>(&[COUNTERS, LIKED_BY])?;
    let result = click_around(&mut con);
    con.unlink::<_, ()>(&[COUNTERS, LIKED_BY])?;
    result
}

fn click_around(con: &mut Connection) -> RedisResult<()> {
    let ada = 1_700_000_000_000_000_001; // a 64-bit snowflake id
    let grace = u64::MAX;

    click(con, "Ada likes it", "RBM.MARK", ada)?;
    click(con, "Ada clicks again", "RBM.MARK", ada)?;
    click(con, "Grace likes it", "RBM.MARK", grace)?;
    click(con, "Ada takes it back", "RBM.UNMARK", ada)?;
    click(con, "... and again", "RBM.UNMARK", ada)?;

    for (name, id) in [("Ada", ada), ("Grace", grace)] {
        let liked: bool = cmd("RBM.CONTAINS").arg((LIKED_BY, id)).query(con)?;
        println!("does {name} like it? {}", if liked { "yes" } else { "no" });
    }
    let set: u64 = cmd("RBM.CARD").arg(LIKED_BY).query(con)?;
    let counter: u64 = cmd("CINT.GET").arg((COUNTERS, LIKES)).query(con)?;
    println!("users in the set: {set}, likes counted: {counter}");
    Ok(())
}

fn click(con: &mut Connection, what: &str, command: &str, user: u64) -> RedisResult<()> {
    let (changed, likes): (bool, Option<u64>) = cmd(command)
        .arg((LIKED_BY, user, "COUNT", COUNTERS, LIKES))
        .query(con)?;
    let note = if changed { "" } else { " (nothing changed)" };
    println!("{what}: {} likes{note}", likes.unwrap_or(0));
    Ok(())
}
