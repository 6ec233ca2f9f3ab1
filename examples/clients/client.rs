//! Commands and replies of the module with redis-rs. docs/clients.md quotes this file.

use redis::{Commands, RedisResult, cmd};

fn main() -> RedisResult<()> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let mut con = redis::Client::open(url)?.get_connection()?;

    // Fields 0, 1, 2 of a post: reads, likes, comments.
    let likes: u64 = cmd("CINT.INCRBY")
        .arg(("demo:post:1", 1, 1, "LEN", 3))
        .query(&mut con)?;
    println!("likes {likes}");
    cmd("CINT.BATCHINCR")
        .arg(("demo:post:1", 0, 11, 2, 5))
        .exec(&mut con)?;

    // A page of posts in one call: 3 fields of 5 big-endian bytes for each key.
    let page: Vec<u8> = cmd("CINT.MREAD")
        .arg((3, "demo:post:1", "demo:post:2"))
        .query(&mut con)?;
    print!("page");
    for field in page.chunks_exact(5) {
        print!(
            " {}",
            field
                .iter()
                .fold(0, |count, &byte| count << 8 | u64::from(byte))
        );
    }
    println!();

    // Who liked it: an exact set of 64-bit ids. The second call finds the id there.
    for _ in 0..2 {
        let new: u64 = cmd("RBM.ADD")
            .arg(("demo:likes:1", u64::MAX))
            .query(&mut con)?;
        println!("new {new}");
    }

    con.unlink(&["demo:post:1", "demo:likes:1"])
}
