//! Active defragmentation: the server moves counters and sets while they are read and written.
//!
//! Servers as Debian builds them cannot do it, and say so; there that answer is what is checked.

use countint_tests::{Client, Server, args, reply, wait_until};

const KEYS: u64 = 20_000;
/// The sets of this size and distance take many allocations each.
const LARGE: u64 = 60_000;

/// Fills memory with values of many sizes, then takes every second key away: holes everywhere.
fn fragment(client: &mut Client) {
    for from in (0..KEYS).step_by(1000) {
        let commands: Vec<_> = (from..from + 1000).flat_map(make).collect();
        client.pipeline(&commands);
    }
    for set in 0..6 {
        for from in (0..LARGE).step_by(10_000) {
            let mut command = args!["RBM.ADD", format!("large:{set}")].to_vec();
            command.extend((from..from + 10_000).map(|id| (id * 700).to_string().into_bytes()));
            client.call(&command);
        }
    }
    let gone: Vec<_> = (0..KEYS)
        .step_by(2)
        .flat_map(|key| ["c", "s"].map(|kind| args!["DEL", format!("{kind}:{key}")].to_vec()))
        .chain(
            (0..6)
                .step_by(2)
                .map(|set| args!["DEL", format!("large:{set}")].to_vec()),
        )
        .collect();
    client.pipeline(&gone);
}

/// A counter object and a small set.
fn make(key: u64) -> [Vec<Vec<u8>>; 2] {
    let counters = args![
        "CINT.SET",
        format!("c:{key}"),
        "LEN",
        (key % 60 + 1).to_string(),
        "0",
        key.to_string()
    ];
    let mut set = args!["RBM.ADD", format!("s:{key}")].to_vec();
    set.extend((0..key % 300 + 1).map(|id| (id * 70_001 + key).to_string().into_bytes()));
    [counters.to_vec(), set]
}

#[test]
fn moves_values_under_traffic_or_says_that_it_cannot() {
    let server = Server::start();
    let mut client = server.client();
    let answer = client.run("CONFIG SET activedefrag yes");
    if answer != "OK" {
        assert!(
            answer.contains("Active defragmentation cannot be enabled"),
            "{answer}"
        );
        return;
    }
    client.ok("CONFIG SET activedefrag no");
    fragment(&mut client);
    let digest = client.digest();
    for (setting, value) in [
        ("active-defrag-ignore-bytes", "1"),
        ("active-defrag-threshold-lower", "0"),
        ("active-defrag-threshold-upper", "1"),
        ("active-defrag-cycle-min", "60"),
        ("active-defrag-cycle-max", "75"),
        // Larger values are moved piece by piece, with a cursor.
        ("active-defrag-max-scan-fields", "5"),
        ("activedefrag", "yes"),
    ] {
        client.expect(&format!("CONFIG SET {setting} {value}"), "OK");
    }
    let mut traffic = Traffic::default();
    let mut writer = server.client();
    wait_until("values have been moved", || {
        traffic.round(&mut writer);
        client.info_number("stats", "active_defrag_hits") > KEYS
            && client.info_number("stats", "active_defrag_key_hits") > KEYS / 2
    });
    traffic.undo(&mut writer);
    assert_eq!(client.digest(), digest, "moving changes nothing");
    client.ok("CONFIG SET activedefrag no");
    client.ok("FLUSHALL");
    for total in [
        "cint_objects",
        "cint_bytes",
        "rbm_objects",
        "rbm_members",
        "rbm_bytes",
    ] {
        assert_eq!(
            client.info_number("countint", &format!("countint_{total}")),
            0,
            "{total}"
        );
    }
}

/// Writes to keys that are being moved, each of them checked, all of them undone in the end.
#[derive(Default)]
struct Traffic {
    rounds: u64,
}

impl Traffic {
    const STRIDE: u64 = 101;

    fn key(round: u64) -> u64 {
        round * Self::STRIDE * 2 % KEYS + 1 // odd ones are still there
    }

    fn round(&mut self, client: &mut Client) {
        for _ in 0..200 {
            let key = Self::key(self.rounds);
            let delta = format!("CINT.INCRBY c:{key} 0 1");
            let expected = key + 1 + self.rounds / (KEYS / 2);
            assert_eq!(reply::int(client.ok(&delta)) as u64, expected, "{delta}");
            let id = u64::MAX - self.rounds;
            client.expect(&format!("RBM.ADD large:{} {id}", key % 6), "(integer) 1");
            client.expect(&format!("RBM.CONTAINS s:{key} {key}"), "(integer) 1");
            self.rounds += 1;
        }
    }

    fn undo(&self, client: &mut Client) {
        for round in 0..self.rounds {
            let key = Self::key(round);
            client.ok(&format!("CINT.INCRBY c:{key} 0 -1"));
            client.expect(
                &format!("RBM.REM large:{} {}", key % 6, u64::MAX - round),
                "(integer) 1",
            );
        }
    }
}
