//! A feed page: the counters of 100 posts in one call.
//!
//! `CINT.MREAD` returns the page as one byte string, five bytes per counter, which the client splits in a loop.
//! `CINT.MDUMP` returns the page as an array of arrays, which is easier to read but costs more to send and parse.
//! A post without reads has no key: it reads as zeros (`MREAD`) or nil (`MDUMP`).
//!
//!     cargo run --example feed_page
//!
//! The server is `REDIS_URL`, by default redis://127.0.0.1:6379. The keys are removed at the end.

use redis::{Commands, Connection, RedisResult, cmd};

const POSTS: usize = 100;
/// The names of a post's counters, in the order of their fields.
const NAMES: [&str; FIELDS] = ["reads", "likes", "favourites", "comments", "reposts"];
const FIELDS: usize = 5;
const FIELD_BYTES: usize = 5;

fn main() -> RedisResult<()> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let mut con = redis::Client::open(url)?.get_connection()?;
    let keys: Vec<String> = (0..POSTS)
        .map(|post| format!("demo:feed_page:{post}"))
        .collect();
    con.unlink::<_, ()>(&keys)?;
    let result = read_page(&mut con, &keys);
    con.unlink::<_, ()>(&keys)?;
    result
}

fn read_page(con: &mut Connection, keys: &[String]) -> RedisResult<()> {
    count_something(con, keys)?;

    let bytes: Vec<u8> = cmd("CINT.MREAD").arg(FIELDS).arg(keys).query(con)?;
    let page: Vec<Vec<u64>> = bytes.chunks_exact(FIELDS * FIELD_BYTES).map(post).collect();
    println!("CINT.MREAD: {} posts in {} bytes", page.len(), bytes.len());
    println!("post {}", NAMES.map(|name| format!("{name:>10}")).join(" "));
    for (number, counts) in page.iter().enumerate().take(4) {
        let cells: Vec<String> = counts.iter().map(|count| format!("{count:>10}")).collect();
        println!("{number:>4} {}", cells.join(" "));
    }

    let arrays: Vec<Option<Vec<u64>>> = cmd("CINT.MDUMP").arg(keys).query(con)?;
    let missing = arrays.iter().filter(|post| post.is_none()).count();
    println!("CINT.MDUMP: {} posts, {missing} of them nil", arrays.len());

    let same = arrays
        .into_iter()
        .map(|post| post.unwrap_or_else(|| vec![0; FIELDS]))
        .eq(page);
    println!("both say the same: {same}");
    Ok(())
}

/// Counts reads and likes of nine posts in ten, with pipelined commands in one round trip.
fn count_something(con: &mut Connection, keys: &[String]) -> RedisResult<()> {
    let mut pipe = redis::pipe();
    for (post, key) in keys.iter().enumerate().filter(|(post, _)| post % 10 != 0) {
        pipe.cmd("CINT.BATCHINCR")
            .arg((key, "LEN", FIELDS))
            .arg((0, post * 3, 1, post))
            .ignore();
    }
    pipe.exec(con)
}

/// The fields of one post, big-endian.
fn post(bytes: &[u8]) -> Vec<u64> {
    bytes
        .chunks_exact(FIELD_BYTES)
        .map(|field| {
            field
                .iter()
                .fold(0, |count, &byte| count << 8 | u64::from(byte))
        })
        .collect()
}
