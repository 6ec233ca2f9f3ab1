//! Converts its own keys during writes, and compares the counts with a record of the writes.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use redis::{Client, Connection, RedisResult, cmd};

use crate::adopt::Migration;

const PREFIX: &str = "demo:migrate:";
/// The fields of a post's Hash, in the order of the CountInt's fields.
const NAMES: [&str; 2] = ["reads", "likes"];
const WRITERS: u64 = 4;

/// Creates the keys (three of four are Hashes of counters, the others Sets of ids), converts them during writes,
/// compares them with the writers' replies, and removes them.
pub fn run(client: &Client, keys: u64) -> Result<(), Box<dyn Error>> {
    let mut con = client.get_connection()?;
    remove(&mut con)?;
    let result = migrate(client, &mut con, keys);
    remove(&mut con)?;
    result
}

fn migrate(client: &Client, con: &mut Connection, keys: u64) -> Result<(), Box<dyn Error>> {
    println!("making {keys} keys");
    fill(con, keys)?;
    let stop = &AtomicBool::new(false);
    let (moved, written) = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|seed| scope.spawn(move || write(client, keys, seed_of(seed), stop)))
            .collect();
        let moved = move_all(con);
        stop.store(true, Relaxed);
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        (moved, written)
    });
    let moved = moved?;
    let mut expected = Sums {
        reads: posts(keys) * 100,
        likes: posts(keys) * 7,
        members: keys - posts(keys),
    };
    let (mut writes, mut switched) = (0, 0);
    for writer in written {
        let books = writer.map_err(|_| "a writer panicked")??;
        expected.reads += books.reads;
        expected.members += books.members;
        writes += books.reads + books.members;
        switched += books.old;
    }
    println!("{moved} keys moved; meanwhile {writes} writes, {switched} of them in the old way");
    let got = sums(con, keys)?;
    if got != expected {
        return Err(format!("something is lost: expected {expected:?}, found {got:?}").into());
    }
    println!("nothing is lost: {got:?}");
    Ok(())
}

fn seed_of(writer: u64) -> u64 {
    writer.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1
}

/// The number of keys that are posts; the others are sets.
fn posts(keys: u64) -> u64 {
    keys - keys / 4
}

fn post(i: u64) -> String {
    format!("{PREFIX}post:{i}")
}

fn set(i: u64) -> String {
    format!("{PREFIX}set:{i}")
}

fn fill(con: &mut Connection, keys: u64) -> RedisResult<()> {
    in_batches(keys, |range| {
        let mut pipe = redis::pipe();
        for i in range {
            if i < posts(keys) {
                pipe.cmd("HSET").arg((post(i), "reads", 100, "likes", 7));
            } else {
                pipe.cmd("SADD").arg((set(i), i));
            }
        }
        pipe.exec(con)
    })
}

fn in_batches(
    keys: u64,
    mut work: impl FnMut(std::ops::Range<u64>) -> RedisResult<()>,
) -> RedisResult<()> {
    (0..keys)
        .step_by(1000)
        .try_for_each(|first| work(first..keys.min(first + 1000)))
}

fn move_all(con: &mut Connection) -> RedisResult<u64> {
    let hashes = Migration::new(
        &format!("{PREFIX}post:*"),
        &[&["CINT.ADOPT", "FIELDS"], NAMES.as_slice()].concat(),
    );
    let sets = Migration::new(&format!("{PREFIX}set:*"), &["RBM.ADOPT"]);
    let mut moved = 0;
    for migration in [hashes, sets].into_iter().flatten() {
        let outcome = migration.run(con)?;
        for (key, why) in &outcome.left {
            println!("left: {}: {why}", String::from_utf8_lossy(key));
        }
        moved += outcome.moved;
    }
    Ok(moved)
}

/// The acknowledged writes of a writer.
#[derive(Default)]
struct Books {
    reads: u64,
    members: u64,
    /// The writes that used the old command.
    old: u64,
}

/// Writes to random keys, with the new command first.
fn write(client: &Client, keys: u64, mut seed: u64, stop: &AtomicBool) -> RedisResult<Books> {
    let mut con = client.get_connection()?;
    let mut books = Books::default();
    while !stop.load(Relaxed) {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let i = (seed >> 33) % keys;
        if i < posts(keys) {
            let key = post(i);
            let mut new = cmd("CINT.INCRBY");
            new.arg((&key, 0, 1, "LEN", NAMES.len()));
            let mut old = cmd("HINCRBY");
            old.arg((&key, NAMES[0], 1));
            let (_, way) = either(&mut con, &new, &old)?;
            books.reads += 1;
            books.old += u64::from(way == Way::Old);
        } else {
            let (key, member) = (set(i), seed >> 20);
            let mut new = cmd("RBM.ADD");
            new.arg((&key, member));
            let mut old = cmd("SADD");
            old.arg((&key, member));
            let (added, way) = either(&mut con, &new, &old)?;
            books.members += added;
            books.old += u64::from(added == 1 && way == Way::Old);
        }
    }
    Ok(books)
}

/// The command that was executed.
#[derive(PartialEq)]
enum Way {
    New,
    Old,
}

/// Sends the new command, and after WRONGTYPE the old one. A command that replies WRONGTYPE has changed nothing. The key
/// may be converted between the two, hence the loop; keys are not converted back, so the loop ends.
fn either(con: &mut Connection, new: &redis::Cmd, old: &redis::Cmd) -> RedisResult<(u64, Way)> {
    loop {
        for (command, way) in [(new, Way::New), (old, Way::Old)] {
            match command.query(con) {
                Ok(reply) => return Ok((reply, way)),
                Err(error) if error.code() == Some("WRONGTYPE") => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The sums over all keys.
#[derive(Debug, Default, PartialEq)]
struct Sums {
    reads: u64,
    likes: u64,
    members: u64,
}

fn sums(con: &mut Connection, keys: u64) -> RedisResult<Sums> {
    let mut sums = Sums::default();
    in_batches(keys, |range| {
        let mut pipe = redis::pipe();
        let split = range.end.min(posts(keys)).saturating_sub(range.start) as usize;
        for i in range {
            if i < posts(keys) {
                pipe.cmd("CINT.DUMP").arg(post(i));
            } else {
                pipe.cmd("RBM.CARD").arg(set(i));
            }
        }
        let replies: Vec<redis::Value> = pipe.query(con)?;
        for (n, reply) in replies.into_iter().enumerate() {
            if n < split {
                let [reads, likes]: [u64; 2] = redis::from_redis_value(reply)?;
                sums.reads += reads;
                sums.likes += likes;
            } else {
                sums.members += redis::from_redis_value::<u64>(reply)?;
            }
        }
        Ok(())
    })?;
    Ok(sums)
}

fn remove(con: &mut Connection) -> RedisResult<()> {
    let mut cursor = 0_u64;
    loop {
        let (next, keys): (u64, Vec<Vec<u8>>) = cmd("SCAN")
            .arg((cursor, "MATCH", format!("{PREFIX}*"), "COUNT", 1000))
            .query(con)?;
        if !keys.is_empty() {
            cmd("UNLINK").arg(keys).exec(con)?;
        }
        cursor = next;
        if cursor == 0 {
            return Ok(());
        }
    }
}
