//! Large sets are freed by the server's lazy-free thread, so that no client waits.

use super::hostile::portable::{array, half, set};
use countint_tests::{Client, Server, args, wait_until};

const HALVES: u32 = 2;
const BLOCKS: u16 = 38_500;
const IN_BLOCK: u16 = 65;
const MEMBERS: u64 = HALVES as u64 * BLOCKS as u64 * IN_BLOCK as u64;

/// Five million ids, spread over some 20,000 pages.
fn five_million() -> Vec<u8> {
    let lows: Vec<u16> = (0..IN_BLOCK).map(|n| n * 1000).collect();
    let blocks: Vec<_> = (0..BLOCKS).map(|key| array(key, &lows)).collect();
    let bitmap = half(&blocks);
    let halves: Vec<_> = (0..HALVES).map(|high| (high, bitmap.clone())).collect();
    set(&halves)
}

fn freed_lazily(client: &mut Client) -> u64 {
    client.info_number("memory", "lazyfreed_objects")
}

fn totals(client: &mut Client) -> [u64; 4] {
    ["cint_objects", "cint_bytes", "rbm_members", "rbm_bytes"]
        .map(|name| client.info_number("countint", &format!("countint_{name}")))
}

#[test]
fn large_sets_are_freed_in_the_background() {
    let server = Server::start();
    let mut client = server.client();
    let bytes = five_million();
    let ways: [(&str, u64); 5] = [
        ("UNLINK big", 1),
        ("FLUSHALL ASYNC", 2),
        ("FLUSHDB ASYNC", 2),
        // Overwritten and deleted values, too, with the lazyfree settings.
        ("RBM.OP OR big small", 1),
        ("DEL big", 1),
    ];
    client.ok("CONFIG SET lazyfree-lazy-server-del yes");
    client.ok("CONFIG SET lazyfree-lazy-user-del yes");
    for (line, objects) in ways {
        client.ok("FLUSHALL SYNC");
        client.ok("RBM.ADD small 1");
        let added = client.call(&args!["RBM.IMPORT", "big", bytes]);
        assert_eq!(added, countint_tests::Value::Int(MEMBERS as i64));
        assert!(totals(&mut client)[3] > 2 * MEMBERS);
        let before = freed_lazily(&mut client);
        client.ok(line);
        // The key is removed immediately, and the server serves other clients while the value is freed.
        client.expect("RBM.CARD other", "(integer) 0");
        assert_ne!(client.run("RBM.CARD big"), format!("(integer) {MEMBERS}"));
        wait_until(&format!("{line}: another thread has freed"), || {
            freed_lazily(&mut client) - before == objects
        });
        client.ok("FLUSHALL SYNC");
        assert_eq!(totals(&mut client), [0; 4], "{line}");
    }
}

#[test]
fn synchronous_deletion_frees_at_once() {
    let server = Server::start();
    let mut client = server.client();
    // Valkey's default is `yes`.
    client.ok("CONFIG SET lazyfree-lazy-user-del no");
    client.call(&args!["RBM.IMPORT", "big", five_million()]);
    client.ok("DEL big");
    assert_eq!(totals(&mut client), [0; 4]);
    assert_eq!(freed_lazily(&mut client), 0);
}

#[test]
fn small_values_are_freed_at_once() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("CINT.INIT c 65535");
    client.ok("RBM.ADD r 1 2 3");
    client.ok("UNLINK c r");
    assert_eq!(totals(&mut client), [0; 4]);
    assert_eq!(
        freed_lazily(&mut client),
        0,
        "a job costs more than they do"
    );
}
