//! Active defragmentation moves values while they are read and written.
//!
//! It requires a server built with its own jemalloc. On other servers the tests check the error and pass, unless
//! `COUNTINT_DEFRAG=yes`.

use super::hostile::portable::{array, half, set};
use super::hostile::random::Random;
use countint_tests::{Client, Server, Value, args, reply, wait_until};

/// Every fourth value is kept. Deleting the others fragments the memory.
const SHARE: u64 = 4;

/// Sets the lowest thresholds. Returns false if this server cannot defragment.
fn can_defragment(server: &Server) -> bool {
    let mut client = server.client();
    for line in [
        "CONFIG SET active-defrag-ignore-bytes 1",
        "CONFIG SET active-defrag-threshold-lower 0",
        "CONFIG SET active-defrag-threshold-upper 1",
        "CONFIG SET active-defrag-cycle-min 50",
        "CONFIG SET active-defrag-cycle-max 75",
        // Larger sets are moved incrementally, with the cursor.
        "CONFIG SET active-defrag-max-scan-fields 100",
    ] {
        client.ok(line);
    }
    let reply = client.run("CONFIG SET activedefrag yes");
    if reply == "OK" {
        client.ok("CONFIG SET activedefrag no");
        return true;
    }
    let name = if server.version().valkey {
        ""
    } else {
        "Redis "
    };
    assert_eq!(
        reply,
        format!(
            "(error) ERR CONFIG SET failed (possibly related to argument 'activedefrag') - Active defragmentation \
             cannot be enabled: it requires a {name}server compiled with a modified Jemalloc like the one shipped by \
             default with the {name}source distribution"
        )
    );
    assert_eq!(client.config("activedefrag")["activedefrag"], "no");
    let must = std::env::var("COUNTINT_DEFRAG").is_ok_and(|must| must == "yes");
    assert!(
        !must,
        "COUNTINT_DEFRAG=yes, and this server cannot defragment"
    );
    println!("skipped: this server cannot defragment");
    false
}

/// The allocator's fragmentation in bytes. The server updates it ten times a second.
fn wasted(client: &mut Client) -> u64 {
    client.info_number("memory", "allocator_frag_bytes")
}

/// [`wasted`] in a server without data; `None` if it cannot defragment.
fn wasted_idle(server: &Server) -> Option<u64> {
    if !can_defragment(server) {
        return None;
    }
    let (mut client, mut idle) = (server.client(), 0);
    wait_until("the server has looked", || {
        idle = wasted(&mut client);
        idle > 0
    });
    Some(idle)
}

/// Deletes all but every fourth of k0, k1, ...
fn delete_most(client: &mut Client, keys: u64) {
    let gone: Vec<_> = (0..keys)
        .filter(|i| i % SHARE != 0)
        .map(|i| args!["DEL", format!("k{i}")].to_vec())
        .collect();
    client.pipeline(&gone);
}

/// The numbers of objects, fields, rows and members, and the bytes.
fn totals(client: &mut Client) -> ([u64; 6], u64) {
    let mut total = |name| client.info_number("countint", &format!("countint_{name}"));
    let elements = [
        "cint_objects",
        "cint_fields",
        "ctab_objects",
        "ctab_rows",
        "rbm_objects",
        "rbm_members",
    ];
    let elements = elements.map(&mut total);
    let bytes = ["cint_bytes", "ctab_bytes", "rbm_bytes"].map(total);
    (elements, bytes.iter().sum())
}

/// Runs defragmentation until the fragmentation has decreased by a third, under `traffic`, which does not change the
/// data. `idle` is the fragmentation without data. Nearly all of the rest lies between values, not between the server's
/// own allocations for each key.
fn defragment(server: &Server, idle: Option<u64>, mut traffic: impl FnMut(&mut Client)) {
    let mut client = server.client();
    let (digest, (elements, bytes)) = (client.digest(), totals(&mut client));
    let Some(idle) = idle else {
        // The traffic itself must not change the data.
        traffic(&mut client);
        assert_eq!(client.digest(), digest);
        return;
    };
    let wasted = |client: &mut Client| wasted(client).saturating_sub(idle);
    let mut before = 0;
    wait_until("most of the memory is wasted", || {
        before = wasted(&mut client);
        before > bytes
    });
    client.ok("CONFIG SET activedefrag yes");
    wait_until("the server defragments", || {
        traffic(&mut client);
        client.info_number("memory", "active_defrag_running") > 0
    });
    let mut after = before;
    wait_until("the fragmentation has decreased by a third", || {
        traffic(&mut client);
        after = wasted(&mut client);
        3 * after < 2 * before
    });
    let hits = client.info_number("stats", "active_defrag_hits");
    println!(
        "{bytes} bytes of values, wasted: {before} before, {after} after, {hits} allocations moved"
    );
    assert!(hits > 0);
    client.ok("CONFIG SET activedefrag no");
    assert_eq!(client.digest(), digest, "the digest after defragmentation");
    let (elements_after, bytes_after) = totals(&mut client);
    assert_eq!(
        elements_after, elements,
        "INFO countint after all has moved"
    );
    // Moved values have no spare capacity; values that the traffic changed have.
    assert!(
        bytes_after.abs_diff(bytes) <= bytes / 10,
        "{bytes} bytes before, {bytes_after} after"
    );
    client.ok("FLUSHALL SYNC");
    assert_eq!(totals(&mut client), ([0; 6], 0));
}

#[test]
fn defragmentation_moves_counters() {
    const KEYS: u64 = 8000;
    let server = Server::start();
    let mut client = server.client();
    let idle = wasted_idle(&server);
    let create: Vec<_> = (0..KEYS)
        .map(|i| args!["CINT.SET", format!("k{i}"), "LEN", 400, 0, i, 399, 3 * i].to_vec())
        .collect();
    client.pipeline(&create);
    delete_most(&mut client, KEYS);
    let mut random = Random::new(0xdef7);
    defragment(&server, idle, |client| {
        let i = random.below((KEYS / SHARE) as usize) as u64 * SHARE;
        let ends = format!("1) (integer) {i}\n2) (integer) {}", 3 * i);
        client.expect(&format!("CINT.MGET k{i} 0 399"), &ends);
        client.expect(&format!("CINT.INCRBY k{i} 1 5"), "(integer) 5");
        client.expect(&format!("CINT.BATCHINCR k{i} 1 -5"), "1) (integer) 0");
    });
}

#[test]
fn defragmentation_moves_small_sets() {
    // Pages of 384 to 512 bytes. The server defragments only size classes with few allocations per slab.
    const KEYS: u64 = 16_000;
    const MEMBERS: u64 = 60;
    let server = Server::start();
    let mut client = server.client();
    let idle = wasted_idle(&server);
    let member = |i: u64, n: u64| (i + 1) * (n + 1) * 0x0123_4567_89ab;
    let create: Vec<_> = (0..KEYS)
        .map(|i| {
            let mut command = args!["RBM.ADD", format!("k{i}")].to_vec();
            command.extend((0..MEMBERS).map(|n| member(i, n).to_string().into_bytes()));
            command
        })
        .collect();
    client.pipeline(&create);
    client.expect("RBM.CARD k3", &format!("(integer) {MEMBERS}"));
    delete_most(&mut client, KEYS);
    let mut random = Random::new(0xdef8);
    defragment(&server, idle, |client| {
        let i = random.below((KEYS / SHARE) as usize) as u64 * SHARE;
        let (first, last) = (member(i, 0), member(i, MEMBERS - 1));
        let both = "1) (integer) 1\n2) (integer) 1";
        client.expect(&format!("RBM.MCONTAINS k{i} {first} {last}"), both);
        client.expect(&format!("RBM.ADD k{i} 18446744073709551615"), "(integer) 1");
        client.expect(&format!("RBM.REM k{i} 18446744073709551615"), "(integer) 1");
        client.expect(&format!("RBM.MAX k{i}"), &format!("\"{last}\""));
    });
}

/// Four sets grow in turn, so that their pages interleave in memory; three are deleted.
#[test]
fn defragmentation_moves_pages_of_a_large_set() {
    const BLOCKS: u16 = 4000;
    const IN_BLOCK: u16 = 500;
    let lows: Vec<u16> = (0..IN_BLOCK).map(|n| 100 * n).collect();
    let server = Server::start();
    let mut client = server.client();
    let idle = wasted_idle(&server);
    let grow: Vec<_> = (0..BLOCKS)
        .flat_map(|key| {
            let bytes = set(&[(7, half(&[array(key, &lows)]))]);
            (0..SHARE).map(move |i| args!["RBM.IMPORT", format!("k{i}"), bytes].to_vec())
        })
        .collect();
    client.pipeline(&grow);
    delete_most(&mut client, SHARE);
    let mut random = Random::new(0xdef9);
    defragment(&server, idle, |client| {
        let block = random.below(usize::from(BLOCKS)) as u64;
        let rank = block * u64::from(IN_BLOCK) + 1;
        let member = (7 << 32) + (block << 16) + 100;
        client.expect(
            &format!("RBM.RANK k0 {member}"),
            &format!("(integer) {rank}"),
        );
        client.expect(&format!("RBM.SELECT k0 {rank}"), &format!("\"{member}\""));
        client.expect(&format!("RBM.REM k0 {member}"), "(integer) 1");
        client.expect(
            &format!("RBM.ADD k0 {member} {}", member + 1),
            "(integer) 2",
        );
        client.expect(&format!("RBM.REM k0 {}", member + 1), "(integer) 1");
        let page = reply::array(client.ok(&format!("RBM.SCAN k0 {member} COUNT 2")));
        let next = Value::BulkString((member + 100).to_string().into_bytes());
        assert_eq!(reply::array(page[1].clone())[1], next);
    });
}

/// Four tables grow in turn, so that their pages interleave in memory; three are deleted. The last is moved in parts.
#[test]
fn defragmentation_moves_pages_of_a_large_table() {
    const ROWS: u64 = 120_000;
    let server = Server::start();
    let mut client = server.client();
    let idle = wasted_idle(&server);
    let grow: Vec<_> = (0..ROWS / 40)
        .flat_map(|batch| {
            let rows = (0..40).flat_map(|i| args![(batch * 40 + i) * 3, 4, (1u64 << 39) + i]);
            let rows: Vec<_> = rows.collect();
            (0..SHARE).map(move |i| {
                let mut command = args!["CTAB.MINCRBY", format!("k{i}")].to_vec();
                command.extend(rows.iter().cloned());
                command
            })
        })
        .collect();
    client.pipeline(&grow);
    delete_most(&mut client, SHARE);
    let mut random = Random::new(0xdefa);
    defragment(&server, idle, |client| {
        let row = random.below(ROWS as usize) as u64;
        let (id, value) = (row * 3, (1u64 << 39) + row % 40);
        client.expect(
            &format!("CTAB.GET k0 {id} 4"),
            &format!("(integer) {value}"),
        );
        client.expect(&format!("CTAB.INCRBY k0 {} 0 7", id + 1), "(integer) 7");
        client.expect(&format!("CTAB.DEL k0 {}", id + 1), "(integer) 1");
        let page = reply::array(client.ok(&format!("CTAB.SCAN k0 {} COUNT 1", id + 1)));
        if row + 1 < ROWS {
            let next = Value::BulkString((id + 3).to_string().into_bytes());
            assert_eq!(reply::array(page[1].clone()), [next]);
        }
    });
}
