//! Tables in a real server: memory, freeing, persistence, and moving rows between tables.

use crate::dataset::{is_slow, random};
use countint_tests::{Client, Server, args, reply, wait_until};

type Command = Vec<Vec<u8>>;

/// The objects and rows in `INFO countint`.
fn reported(client: &mut Client) -> [u64; 2] {
    ["countint_ctab_objects", "countint_ctab_rows"].map(|name| client.info_number("countint", name))
}

fn bytes(client: &mut Client) -> u64 {
    client.info_number("countint", "countint_ctab_bytes")
}

/// Waits for lazy freeing.
fn settle(client: &mut Client, what: &str, expected: [u64; 2]) {
    wait_until(&format!("INFO reports {expected:?} after {what}"), || {
        reported(client) == expected
    });
    assert_eq!(bytes(client) == 0, expected[0] == 0, "bytes after {what}");
}

#[test]
fn totals_follow_creation_and_removal() {
    let server = Server::start();
    let mut client = server.client();
    let steps: [(&str, [u64; 2]); 21] = [
        ("CTAB.INIT a 3", [1, 0]),
        ("CTAB.INCRBY a 7 0 1", [1, 1]),
        ("CTAB.INCRBY a 7 0 1 LEN 9", [1, 1]),
        ("CTAB.MINCRBY b 7 0 1 8 0 1 9 0 1", [2, 4]),
        ("CTAB.MAPPLY b 0 0 0 10 0 1", [2, 5]),
        ("CTAB.MAPPLY b 0 0 0 11 0 1", [2, 5]),
        ("CTAB.DEL b 7 8", [2, 3]),
        ("COPY b c", [3, 5]),
        ("COPY a c REPLACE", [3, 4]),
        ("RENAME c b", [2, 2]),
        ("SET b text", [1, 1]),
        ("CTAB.DEL a 7", [1, 0]),
        ("MOVE a 1", [1, 0]),
        ("SWAPDB 0 1", [1, 0]),
        ("CTAB.SET a 1 0 5", [1, 1]),
        ("PEXPIRE a 1", [0, 0]),
        ("CTAB.GETSET e 1 0 5", [1, 1]),
        ("EXPIREAT e 1", [0, 0]),
        ("CTAB.BATCHINCR f 1 0 5", [1, 1]),
        ("FLUSHALL", [0, 0]),
        ("CTAB.SET a 1 0 5", [1, 1]),
    ];
    for (line, totals) in steps {
        client.ok(line);
        settle(&mut client, line, totals);
    }
    for line in [
        "CTAB.INCRBY a 2 0 -9 OVERFLOW FAIL",
        "CTAB.INCRBY nosuch 2 0 -9 OVERFLOW FAIL",
        "CTAB.MINCRBY a 2 0 1 3 5 1",
        "CTAB.IMPORT a abc",
        "CTAB.RESIZE a 65536",
    ] {
        assert!(client.run(line).starts_with("(error)"), "{line}");
        settle(&mut client, line, [1, 1]);
    }
    client.ok("UNLINK a");
    settle(&mut client, "UNLINK", [0, 0]);
}

/// A row of counters: a log-normal number of reads (median 150, 1 % above 70,000), and others derived from it.
fn heavy_tail(uniform: (u64, u64)) -> [u64; 5] {
    let unit = |n: u64| ((n >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let normal =
        (-2.0 * unit(uniform.0).ln()).sqrt() * (std::f64::consts::TAU * unit(uniform.1)).cos();
    let sigma = (70_000f64 / 150.0).ln() / 2.3263;
    let reads = (150f64.ln() + sigma * normal).exp().min(1e12).floor();
    [1.0, 0.07, 0.02, 0.01, 0.007].map(|share| (reads * share) as u64)
}

fn set(key: &str, id: u64, row: [u64; 5]) -> Command {
    args![
        "CTAB.SET", key, id, 0, row[0], 1, row[1], 2, row[2], 3, row[3], 4, row[4]
    ]
    .to_vec()
}

fn fill(client: &mut Client, commands: impl Iterator<Item = Command>) {
    let commands: Vec<Command> = commands.collect();
    for chunk in commands.chunks(2000) {
        client.pipeline(chunk);
    }
}

/// Includes the allocator's rounding and the page lists.
#[test]
fn batch_takes_memory_for_its_rows_only() {
    let server = Server::start();
    let mut client = server.client();
    let batch = |command: &[&str], delta: &str| -> Command {
        let increments = (0..3_000)
            .flat_map(|id: u32| ["0", "1"].map(|idx| [id.to_string(), idx.into(), delta.into()]));
        let command = command.iter().map(|word| word.to_string());
        command
            .chain(increments.flatten())
            .map(String::into_bytes)
            .collect()
    };
    client.call(&batch(&["CTAB.MINCRBY", "t"], "5"));
    let once = bytes(&mut client);
    for _ in 0..10 {
        client.call(&batch(&["CTAB.MINCRBY", "t"], "1"));
        client.call(&batch(&["CTAB.MINCRBY", "t"], "-1"));
    }
    assert_eq!(bytes(&mut client), once, "after more batches");
    client.call(&batch(&["CTAB.MAPPLY", "u", "0", "0", "9"], "5"));
    client.ok("COPY t v");
    let three = bytes(&mut client);
    assert!(
        three.abs_diff(3 * once) <= once / 2,
        "{three} bytes of three tables, {once} of one"
    );
}

#[test]
fn rows_take_at_most_their_documented_bytes() {
    let rows = if is_slow() { 10_000 } else { 100_000 };
    let server = Server::start();
    let mut client = server.client();
    let heavy = || random(1).zip(random(2)).map(heavy_tail);
    let wide = || {
        let mut numbers = random(3).map(|n| n >> 24);
        std::iter::repeat_with(move || std::array::from_fn(|_| numbers.next().unwrap_or_default()))
    };
    let snowflake = |i: u64| ((1_700_000_000_000 + i) << 22) | ((i * 7919) % 4096);
    type Rows<'a> = Box<dyn Iterator<Item = (u64, [u64; 5])> + 'a>;
    let cases: [(&str, Rows, u64); 4] = [
        (
            "heavy tail, ids in sequence",
            Box::new((0..rows).zip(heavy())),
            11,
        ),
        (
            "random, ids in sequence",
            Box::new((0..rows).zip(wide())),
            29,
        ),
        (
            "heavy tail, snowflakes",
            Box::new((0..rows).map(snowflake).zip(heavy())),
            19,
        ),
        (
            "random, snowflakes",
            Box::new((0..rows).map(snowflake).zip(wide())),
            37,
        ),
    ];
    for (what, cases, max_bytes) in cases {
        client.ok("FLUSHALL SYNC");
        let before = client.info_number("memory", "used_memory");
        fill(&mut client, cases.map(|(id, row)| set("t", id, row)));
        client.expect("CTAB.CARD t", &format!("(integer) {rows}"));
        let reported = bytes(&mut client);
        assert!(reported <= max_bytes * rows, "{what}: {reported} bytes");
        assert_eq!(reply::int(client.ok("CTAB.DEL t 18446744073709551615")), 0);
        // The reported bytes are the growth of used_memory, except for this connection's buffers.
        wait_until("used_memory comes to the same", || {
            let used = client
                .info_number("memory", "used_memory")
                .saturating_sub(before);
            used.abs_diff(reported) < 200_000
        });
    }
}

#[test]
fn removed_rows_free_their_memory() {
    let rows = 30_000;
    let server = Server::start();
    let mut client = server.client();
    client.ok("CTAB.INIT t 5");
    let empty = bytes(&mut client);
    let orders: [fn(u64, u64) -> u64; 3] = [|i, _| i, |i, n| n - 1 - i, |i, n| i * 7919 % n];
    for order in orders {
        fill(
            &mut client,
            (0..rows).map(|id| set("t", order(id, rows), [id; 5])),
        );
        client.expect("CTAB.CARD t", &format!("(integer) {rows}"));
        let full = bytes(&mut client);
        let delete = |ids: std::ops::Range<u64>| {
            let ids = ids.map(move |i| order(i, rows).to_string().into_bytes());
            args!["CTAB.DEL", "t"]
                .into_iter()
                .chain(ids)
                .collect::<Command>()
        };
        let parts = [(0..rows / 2), (rows / 2..rows)].map(delete);
        client.call(&parts[0]);
        client.expect("CTAB.CARD t", &format!("(integer) {}", rows / 2));
        let half = bytes(&mut client);
        assert!(
            half * 10 < full * 7,
            "{half} of {full} bytes for half of the rows"
        );
        client.call(&parts[1]);
        client.expect("CTAB.CARD t", "(integer) 0");
        let left = bytes(&mut client) - empty;
        assert!(left < 300, "{left} bytes left of {full}");
    }
}

#[test]
fn saved_table_is_no_larger_than_in_memory_and_reloads() {
    let mut server = Server::start();
    let mut client = server.client();
    fill(
        &mut client,
        random(1)
            .zip(random(2))
            .take(50_000)
            .enumerate()
            .map(|(id, n)| set("t", id as u64, heavy_tail(n))),
    );
    let (before, digest) = (bytes(&mut client), client.digest());
    let dump = reply::bytes(client.ok("DUMP t")).len() as u64;
    assert!(dump * 10 <= before * 11, "{dump} bytes saved of {before}");
    client.ok("SAVE");
    server.restart();
    let mut client = server.client();
    assert_eq!(client.digest(), digest);
    let after = bytes(&mut client);
    assert!(
        after <= before,
        "{after} bytes after a restart, {before} before"
    );
    let cost = reply::int(client.ok("MEMORY USAGE t")) as u64;
    assert!(
        cost.abs_diff(after) < 200,
        "MEMORY USAGE reports {cost} of {after}"
    );
}

#[test]
fn large_table_is_freed_in_the_background() {
    let server = Server::start();
    let mut client = server.client();
    for (line, rows) in [
        ("UNLINK t", 30_000),
        ("FLUSHALL ASYNC", 30_000),
        ("UNLINK t", 10),
    ] {
        let before = client.info_number("memory", "lazyfreed_objects");
        fill(&mut client, (0..rows).map(|id| set("t", id, [1; 5])));
        client.ok(line);
        settle(&mut client, line, [0, 0]);
        // Small tables are freed at once. The server counts a lazily freed value after freeing it, on another thread.
        let mut lazily = || client.info_number("memory", "lazyfreed_objects") > before;
        if rows > 1000 {
            wait_until(&format!("{line} of {rows} rows is counted"), lazily);
        } else {
            assert!(!lazily(), "{line} of {rows} rows");
        }
    }
}

#[test]
fn split_and_joined_table_counts_each_event_once() {
    let server = Server::start();
    let mut client = server.client();
    let rows = 5000u64;
    let events = |from: u64| {
        let increments = (0..rows).flat_map(|id| args![id * 3, 1, 1]);
        args!["CTAB.MAPPLY", "t", 9, from, from + rows - 1]
            .into_iter()
            .chain(increments)
            .collect::<Command>()
    };
    client.call(&events(0));
    let digest = |client: &mut Client, key: &str| {
        reply::format(&client.call(&args!["DEBUG", "DIGEST-VALUE", key]))
    };
    let before = digest(&mut client, "t");
    let middle = rows * 3 / 2;
    for (key, min, max) in [("low", 0, middle), ("high", middle + 1, u64::MAX)] {
        let part = reply::bytes(client.call(&args!["CTAB.EXPORT", "t", min, max]));
        client.call(&args!["CTAB.IMPORT", key, part]);
    }
    let cards = ["low", "high"].map(|key| reply::int(client.call(&args!["CTAB.CARD", key])));
    assert_eq!(cards.iter().sum::<i64>(), rows as i64);
    // Both parts have the fences of the whole.
    client.expect("CTAB.MAPPLY low 9 0 0 0 1 1", &format!("(integer) {rows}"));
    client.expect("CTAB.MAPPLY high 9 0 0 0 1 1", &format!("(integer) {rows}"));
    let high = reply::bytes(client.call(&args!["CTAB.EXPORT", "high", 0, u64::MAX]));
    assert_eq!(
        client.call(&args!["CTAB.IMPORT", "low", high]),
        countint_tests::Value::Int(cards[1])
    );
    assert_eq!(digest(&mut client, "low"), before);
    // A part whose fence is ahead is refused.
    client.ok(&format!("CTAB.MAPPLY high 9 {rows} {rows} 0 1 1"));
    let high = reply::bytes(client.call(&args!["CTAB.EXPORT", "high", 0, u64::MAX]));
    client.ok(&format!("CTAB.DEL low {}", middle + 2));
    let refused = client.call(&args!["CTAB.IMPORT", "low", high]);
    assert_eq!(reply::format(&refused), "(error) ERR fences differ");
}

/// The server's peak memory shows that the reply was not built.
#[test]
fn reply_over_512_megabytes_is_refused_before_it_is_built() {
    let server = Server::start();
    let mut client = server.client();
    let max_rows = (512 << 20) / (5 * 65_535);
    let mut page = args!["CTAB.MREAD", 65_535, "nosuch"].to_vec();
    page.extend((0..=max_rows).map(|id| id.to_string().into_bytes()));
    let refused = "(error) ERR string exceeds maximum allowed size (512MB)";
    assert_eq!(reply::format(&client.call(&page)), refused);
    let rows = page.drain(3..).collect::<Vec<_>>();
    let mut page = args!["CTAB.PAGE", 65_535, rows.len()].to_vec();
    page.extend(rows.into_iter().flat_map(|id| [b"nosuch".to_vec(), id]));
    assert_eq!(reply::format(&client.call(&page)), refused);
    let peak = client.info_number("memory", "used_memory_peak");
    assert!(peak < 64 << 20, "a peak of {peak} bytes");
    // The types of all keys are checked first.
    client.ok("SET s 1");
    *page.iter_mut().nth_back(1).expect("a key") = b"s".to_vec();
    let wrong = "(error) WRONGTYPE Operation against a key holding the wrong kind of value";
    assert_eq!(reply::format(&client.call(&page)), wrong);
}

/// The consumer of two partitions rewinds to an earlier offset after each kill of the server.
#[test]
fn replay_after_kills_counts_each_event_once() {
    const EVENTS: u64 = 600;
    const BATCH: u64 = 20;
    let mut server = Server::builder().append_only(false).start();
    // Event `offset` of a partition reads post `offset % 97`.
    let batch = |source: u64, from: u64| {
        let to = from + BATCH - 1;
        let increments = (from..=to).flat_map(|offset| args![offset % 97, source, 1]);
        args!["CTAB.MAPPLY", "t", source, from, to]
            .into_iter()
            .chain(increments)
            .collect::<Command>()
    };
    let mut kills = random(5).map(|n| n % 12);
    let mut next = [0u64; 2];
    while next.iter().any(|&at| at < EVENTS) {
        let mut client = server.client();
        for _ in 0..3 + kills.next().unwrap_or_default() {
            for source in 0..2 {
                if next[source as usize] < EVENTS {
                    client.call(&batch(source, next[source as usize]));
                    next[source as usize] += BATCH;
                }
            }
        }
        server.kill();
        server.start_again();
        // Rewound batches may or may not have been applied.
        next = next.map(|at| {
            if at < EVENTS {
                at.saturating_sub(2 * BATCH)
            } else {
                at
            }
        });
    }
    let mut client = server.client();
    for source in 0..2 {
        for from in (0..EVENTS).step_by(BATCH as usize) {
            client.call(&batch(source, from));
        }
    }
    for post in 0..97 {
        let expected = (0..EVENTS).filter(|offset| offset % 97 == post).count();
        for source in 0..2 {
            client.expect(
                &format!("CTAB.GET t {post} {source}"),
                &format!("(integer) {expected}"),
            );
        }
    }
}
