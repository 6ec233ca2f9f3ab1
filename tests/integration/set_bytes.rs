//! Memory of sets in a server, including overheads: bytes per member, compared with the built-in Set.

use super::hostile::random::Random;
use countint_tests::{Client, Server, args, env, reply};

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Ids from the milliseconds of one day, a worker and a sequence number.
    Snowflake,
    /// Random 32-bit ids.
    Sparse,
    /// Ids below two million.
    Dense,
}

impl Kind {
    /// Distinct ids in random order.
    fn ids(self, n: usize) -> Vec<u64> {
        let mut random = Random::new(n as u64);
        let day = random.ascending(n, 86_400_000);
        let mut ids = match self {
            Kind::Snowflake => {
                let id = |ms: u64| ((211_165_025_343 + ms) << 22) | ((ms % 32) << 12) | (ms % 7);
                day.into_iter().map(id).collect()
            }
            Kind::Sparse => random.ascending(n, 1 << 32),
            Kind::Dense => random.ascending(n, 2_000_000),
        };
        for i in (1..n).rev() {
            ids.swap(i, random.below(i + 1));
        }
        ids
    }
}

/// A key name of typical length: 18 bytes.
fn name(key: usize) -> String {
    format!("likes:post:{key:07}")
}

/// Sends `command key id ...` for each key, with a few ids per command.
fn send(client: &mut Client, command: &str, keys: usize, ids: &[u64]) {
    // The first 300 ids one by one, as likes arrive.
    let (first, rest) = ids.split_at(ids.len().min(300));
    for key in 0..keys {
        let few = first.chunks(1).chain(rest.chunks(50));
        let commands: Vec<_> = few
            .map(|ids| {
                let mut command = args![command, name(key)].to_vec();
                command.extend(ids.iter().map(|id| id.to_string().into_bytes()));
                command
            })
            .collect();
        for reply in client.pipeline(&commands) {
            assert!(reply::int(reply) > 0);
        }
    }
}

/// The growth of the server's memory in bytes per member: after `add` added the ids to `keys` keys, and after `remove`
/// removed every second member.
fn cost(client: &mut Client, add: &str, remove: &str, keys: usize, ids: &[u64]) -> (f64, f64) {
    client.ok("FLUSHALL SYNC");
    let before = client.used_memory_when_idle();
    send(client, add, keys, ids);
    let full = client.used_memory_when_idle() - before;
    let (gone, left): (Vec<u64>, Vec<u64>) = {
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        let gone = sorted.iter().step_by(2).copied().collect();
        (gone, sorted.into_iter().skip(1).step_by(2).collect())
    };
    let mut reduced = full;
    if !left.is_empty() {
        send(client, remove, keys, &gone);
        reduced = client.used_memory_when_idle() - before;
    }
    (
        full as f64 / (keys * ids.len()) as f64,
        reduced as f64 / (keys * left.len().max(1)) as f64,
    )
}

/// Asserts that `INFO countint`, `RBM.INFO` and `MEMORY USAGE` agree on these keys.
fn assert_consistent(client: &mut Client, keys: usize) {
    let (mut sum, mut headers) = (0, Vec::new());
    for key in 0..keys {
        let info = reply::array(client.ok(&format!("RBM.INFO {}", name(key))));
        let bytes = reply::int(info[5].clone());
        headers.push(reply::int(client.ok(&format!("MEMORY USAGE {}", name(key)))) - bytes);
        sum += bytes as u64;
    }
    assert_eq!(sum, client.info_number("countint", "countint_rbm_bytes"));
    // The server's own part is the same for all keys.
    headers.dedup();
    assert_eq!(headers.len(), 1, "{headers:?}");
}

/// A server whose memory depends on its data only.
fn quiet_server() -> Server {
    let server = Server::builder()
        .config("slowlog-log-slower-than -1")
        .config("latency-tracking no")
        .start();
    // Otherwise reply buffers of clients grow and shrink by 15 KB over time.
    server.client().ok("DEBUG REPLYBUFFER RESIZING 0");
    server
}

#[test]
fn small_sets_take_about_as_much_as_a_set() {
    let server = quiet_server();
    let mut client = server.client();
    for kind in [Kind::Snowflake, Kind::Sparse, Kind::Dense] {
        // A key takes 16 bytes more than a Set's on every server. The Set itself takes fewer on newer ones.
        for (n, keys, key, percent) in [
            (1, 4000, 17.0, 100),
            (10, 500, 0.0, 120),
            (100, 100, 0.0, 100),
        ] {
            let ids = kind.ids(n);
            let (theirs, _) = cost(&mut client, "SADD", "SREM", keys, &ids);
            let (full, reduced) = cost(&mut client, "RBM.ADD", "RBM.REM", keys, &ids);
            assert_consistent(&mut client, keys);
            println!("{kind:?} {n}: {full:.1}, reduced {reduced:.1}, Set {theirs:.1}");
            assert!(
                full <= theirs * f64::from(percent) / 100.0 + key,
                "{kind:?} {n}: {full} bytes a member, in a Set {theirs}"
            );
        }
    }
}

#[test]
fn many_members_cost_a_few_bytes_each() {
    let server = quiet_server();
    let mut client = server.client();
    let max_members = (100_000.0 / env::slow()) as usize;
    for (kind, bars) in [
        (Kind::Snowflake, [8.0, 8.0, 8.0]),
        (Kind::Sparse, [5.0, 5.0, 5.0]),
        // A Roaring bitmap takes 4.5 bytes, and 2.3 with more members.
        (Kind::Dense, [4.5, 3.0, 2.3]),
    ] {
        for (n, bar) in [1000, 10_000, 100_000].into_iter().zip(bars) {
            if n > max_members {
                continue;
            }
            let keys = 100_000 / n;
            let ids = kind.ids(n);
            let (full, reduced) = cost(&mut client, "RBM.ADD", "RBM.REM", keys.max(1), &ids);
            assert_consistent(&mut client, keys.max(1));
            println!("{kind:?} {n}: {full:.2}, reduced {reduced:.2} bytes a member");
            assert!(full <= bar, "{kind:?} {n}: {full} bytes a member");
            // Half of the members are left, so each has twice the share of the key's own memory.
            let key = 120.0 / n as f64;
            assert!(reduced <= bar + key, "{kind:?} {n}, reduced: {reduced}");
        }
    }
    client.ok("FLUSHALL SYNC");
    assert_eq!(client.info_number("countint", "countint_rbm_bytes"), 0);
}
