//! Client-side caching: a read makes the server track its keys, and a change of one of them sends an invalidation.
//! noops.rs checks that calls which change nothing send none.

use crate::keys::KEYS;
use crate::observer::{invalidated, pushes};
use countint_tests::{Client, Server};

/// A client with tracking enabled, and a client that writes.
fn connect(server: &Server, options: &str) -> (Client, Client) {
    let mut cache = server.client3();
    cache.ok(&format!("CLIENT TRACKING ON {options}"));
    (cache, server.client())
}

fn invalidations(cache: &mut Client) -> Vec<String> {
    invalidated(pushes(cache))
}

/// Changes a key or creates it; each `step` makes a different change.
fn change(client: &mut Client, key: &str, step: usize) {
    match key.as_bytes()[0] {
        b'c' => client.ok(&format!("CINT.INCRBY {key} 0 1")),
        b't' => client.ok(&format!("CTAB.INCRBY {key} 1 0 1")),
        _ => client.ok(&format!("RBM.ADD {key} {}", 1000 + step)),
    };
}

#[test]
fn reads_are_invalidated_when_their_keys_change() {
    let server = Server::start();
    let (mut cache, mut writer) = connect(&server, "");
    let mut step = 0;
    for row in KEYS.iter().filter(|row| !row.writes()) {
        for wrapped in [false, true] {
            for key in row.required_permissions().into_keys() {
                for line in [
                    "DEL c c2 c3 r r2 t",
                    "CINT.SET c 0 7",
                    "CTAB.SET t 1 0 7",
                    "RBM.ADD r 1 2",
                ] {
                    writer.ok(line);
                }
                invalidations(&mut cache);
                if wrapped {
                    cache.ok("MULTI");
                }
                cache.ok(row.line);
                if wrapped {
                    cache.ok("EXEC");
                }
                step += 1;
                change(&mut writer, key, step);
                assert_eq!(invalidations(&mut cache), [key], "{}", row.line);
                // The key is no longer tracked, so there is no second invalidation.
                change(&mut writer, key, step + 1);
                assert_eq!(invalidations(&mut cache), [""; 0], "{}", row.line);
            }
        }
    }
}

#[test]
fn reads_of_scripts_are_tracked() {
    let server = Server::start();
    let (mut cache, mut writer) = connect(&server, "");
    for (command, key) in [("CINT.DUMP", "c"), ("RBM.MIN", "r")] {
        cache.ok(&format!(
            "EVAL \"return redis.call('{command}', KEYS[1])\" 1 {key}"
        ));
        change(&mut writer, key, 1);
        assert_eq!(invalidations(&mut cache), [key]);
    }
}

#[test]
fn writes_are_not_tracked() {
    let server = Server::start();
    let (mut cache, mut writer) = connect(&server, "");
    for row in KEYS.iter().filter(|row| row.writes()) {
        for line in [
            "DEL c n r d t",
            "CINT.SET c LEN 3 0 0",
            "CTAB.SET t 1 0 7",
            "RBM.ADD r 1 2 3",
        ] {
            writer.ok(line);
        }
        cache.ok(row.line);
        for key in row.required_permissions().into_keys() {
            writer.ok(&format!("DEL {key}"));
        }
        assert_eq!(invalidations(&mut cache), [""; 0], "{}", row.line);
    }
}

#[test]
fn sources_of_set_operations_are_not_invalidated() {
    let server = Server::start();
    let (mut cache, mut writer) = connect(&server, "");
    writer.ok("RBM.ADD a 1");
    writer.ok("RBM.ADD b 2");
    cache.ok("RBM.OPCARD OR a b d");
    writer.ok("RBM.OP OR d a b");
    assert_eq!(invalidations(&mut cache), ["d"]);
    cache.ok("RBM.CARD d");
    writer.ok("RBM.OP AND d a b");
    assert_eq!(invalidations(&mut cache), ["d"]);
}

#[test]
fn noloop_client_gets_no_invalidations_of_its_own_writes() {
    let server = Server::start();
    let (mut cache, mut writer) = connect(&server, "NOLOOP");
    cache.ok("CINT.GET c 0");
    cache.ok("RBM.CARD r");
    for key in ["c", "r"] {
        change(&mut cache, key, 1);
    }
    assert_eq!(invalidations(&mut cache), [""; 0]);
    cache.ok("CINT.GET c 0");
    change(&mut writer, "c", 2);
    assert_eq!(invalidations(&mut cache), ["c"]);
}
