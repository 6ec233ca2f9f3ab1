//! Converts Strings written by BITFIELD to CountInts, in place.
//!
//! A CountInt's payload equals what `BITFIELD key SET u40 #idx value` writes, so `CINT.ADOPT key LEN n` only
//! changes the type of the key. Strings of 4-byte fields are widened, and those of 8-byte fields narrowed.
//!
//!     cargo run --example import_bitfield
//!
//! The server is `REDIS_URL`, by default redis://127.0.0.1:6379. The keys are removed at the end.

use redis::{Commands, Connection, RedisResult, cmd};

const PACKED: &str = "demo:import_bitfield:u40";
const NARROW: &str = "demo:import_bitfield:u32";
const TEXT: &str = "demo:import_bitfield:text";
const KEYS: [&str; 3] = [PACKED, NARROW, TEXT];

fn main() -> RedisResult<()> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let mut con = redis::Client::open(url)?.get_connection()?;
    con.unlink::<_, ()>(&KEYS)?;
    let result = import(&mut con);
    con.unlink::<_, ()>(&KEYS)?;
    result
}

fn import(con: &mut Connection) -> RedisResult<()> {
    set_fields(con, PACKED, "u40", &[1_099_511_627_775, 0, 42])?;
    let before: Vec<u8> = con.get(PACKED)?;
    cmd("CINT.ADOPT").arg((PACKED, "LEN", 5)).exec(con)?;
    let after: Vec<u8> = cmd("CINT.EXPORT").arg(PACKED).query(con)?;
    println!("u40: {:?}", dump(con, PACKED)?);
    println!(
        "the {} bytes that BITFIELD wrote come first, unchanged: {}",
        before.len(),
        after.starts_with(&before)
    );

    set_fields(con, NARROW, "u32", &[4_294_967_295, 7])?;
    con.expire::<_, ()>(NARROW, 3600)?;
    cmd("CINT.ADOPT")
        .arg((NARROW, "LEN", 2, "WIDTH", 4))
        .exec(con)?;
    let ttl: i64 = con.ttl(NARROW)?;
    println!("u32: {:?}, time to live {ttl} s", dump(con, NARROW)?);

    // "12345" has five bytes, but it is a counter of INCR and not a packed field. It is refused without FORCE.
    con.set::<_, _, ()>(TEXT, "12345")?;
    match cmd("CINT.ADOPT").arg((TEXT, "LEN", 1)).exec(con) {
        Ok(()) => println!("text: taken as fields"),
        Err(error) if error.is_io_error() => return Err(error),
        Err(error) => println!("text: refused: {error}"),
    }
    Ok(())
}

fn set_fields(con: &mut Connection, key: &str, width: &str, values: &[u64]) -> RedisResult<()> {
    let mut bitfield = cmd("BITFIELD");
    bitfield.arg(key);
    for (idx, value) in values.iter().enumerate() {
        bitfield.arg(("SET", width, format!("#{idx}"), value));
    }
    bitfield.exec(con)
}

fn dump(con: &mut Connection, key: &str) -> RedisResult<Vec<u64>> {
    cmd("CINT.DUMP").arg(key).query(con)
}
