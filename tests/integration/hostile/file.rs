//! RDB files with damaged values: the server loads them, or logs the reason and exits without a crash.

use super::random::Random;
use countint_tests::{Server, Snapshot, args, env, reply};
use std::fs;
use std::ops::Range;

/// The position of `part` in `bytes`.
fn find(bytes: &[u8], part: &[u8]) -> Range<usize> {
    let start = bytes
        .windows(part.len())
        .position(|window| window == part)
        .expect("the file holds the value as it is");
    start..start + part.len()
}

/// A server with one of each value, saved.
fn saved() -> (Server, Vec<u8>) {
    let server = Server::builder().config("rdbcompression no").start();
    let mut client = server.client();
    for line in [
        "CINT.SET counters LEN 5 0 1 1 22 2 333 3 4444 4 55555",
        "CINT.SET longer LEN 40 0 1 39 1099511627775",
        "RBM.ADD compact 10 20 30 400 5000 60000 700000 18446744073709551615",
    ] {
        client.ok(line);
    }
    let run = super::portable::runs(3, &[(10, 200), (1000, 5), (60_000, 3000)]);
    let runs = super::portable::one_half(&[run]);
    client.call(&args!["RBM.IMPORT", "runs", runs]);
    let array: Vec<u16> = (0..150).map(|n| n * n).collect();
    let array = super::portable::one_half(&[super::portable::array(3, &array)]);
    client.call(&args!["RBM.IMPORT", "array", array]);
    client.ok("SAVE");
    let file = fs::read(server.dir().join("dump.rdb")).expect("dump.rdb exists");
    (server, file)
}

/// The positions in the file of all bytes of the module's values, with their opcodes and lengths.
fn values(server: &Server, file: &[u8]) -> Vec<usize> {
    let mut client = server.client();
    ["counters", "longer", "compact", "runs", "array"]
        .into_iter()
        .flat_map(|key| {
            let dump = reply::bytes(client.call(&args!["DUMP", key]));
            // In a file the type's byte precedes the key, and there is no footer.
            find(file, &dump[1..dump.len() - 10])
        })
        .collect()
}

fn start_with(server: &mut Server, file: &[u8]) -> Result<(), String> {
    fs::write(server.dir().join("dump.rdb"), file).expect("the file can be written");
    server.try_start_again()
}

/// Starts the server on a damaged file. Returns whether it loaded.
fn loads(server: &mut Server, file: &[u8], what: &str) -> bool {
    match start_with(server, file) {
        Ok(()) => {
            // Inconsistent reads panic.
            Snapshot::take(&mut server.client());
            server.stop();
            true
        }
        Err(log) => {
            assert!(log.starts_with("exit status: "), "{what}: {log}");
            false
        }
    }
}

#[test]
fn damaged_files_are_refused_or_loaded() {
    let mut random = Random::new(0xf11e);
    let (mut server, file) = saved();
    let places = values(&server, &file);
    server.stop();
    let end = file.len() - 8;
    let mut file = file;
    // No checksum, so that the damage reaches the module.
    file[end..].fill(0);
    assert!(loads(&mut server, &file, "the file itself"));
    let (mut taken, mut refused) = (0, 0);
    let count = (100.0 / env::slow()).ceil() as usize;
    for i in 0..count {
        // Spread evenly over all positions, with varying bits.
        let at = places[i * places.len() / count];
        let mut damaged = file.clone();
        damaged[at] ^= 1 << random.below(8);
        let what = format!("byte {at} is {:#x}", damaged[at]);
        match loads(&mut server, &damaged, &what) {
            true => taken += 1,
            false => refused += 1,
        }
    }
    println!("{taken} files loaded, {refused} refused");
    assert!(taken > 0 && refused > 0);
    // Cut within a string: if a file ends between two parts of a value, redis-check-rdb, which the server runs before it
    // exits, never ends (Redis 7.0.15).
    let cut = file[..find(&file, &[0xff; 5]).start].to_vec();
    assert!(!loads(&mut server, &cut, "a file cut in a value"));
}

#[test]
fn log_names_the_damaged_value() {
    let (mut server, mut file) = saved();
    let key = find(&file, b"runs").end;
    server.stop();
    // The second run starts before the first one ends.
    let second = key + find(&file[key..], &1000u16.to_le_bytes()).start;
    file[second..second + 2].copy_from_slice(&11u16.to_le_bytes());
    let end = file.len() - 8;
    file[end..].fill(0);
    let log = start_with(&mut server, &file).expect_err("a set out of order is refused");
    assert!(
        log.contains("refused a RoaringBM payload that is damaged or forged"),
        "{log}"
    );
}
