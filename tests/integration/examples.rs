//! The example programs run and leave no keys.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use countint_tests::{Client, Server, args, env, reply};

fn output(server: &Server, example: &str, arguments: &[&str]) -> Output {
    Command::new(env::example(example))
        .args(arguments)
        .current_dir(env::workspace())
        .env("REDIS_URL", format!("redis://127.0.0.1:{}", server.port()))
        .output()
        .expect("the example can be run")
}

fn run(example: &str) {
    run_with(example, &[]);
}

fn run_with(example: &str, arguments: &[&str]) {
    let server = Server::start();
    let output = output(&server, example, arguments);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{example}: {printed}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!printed.trim().is_empty(), "{example} prints nothing");
    server.client().expect("DBSIZE", "(integer) 0");
}

#[test]
fn like_button_runs() {
    run("like_button");
}

#[test]
fn feed_page_runs() {
    run("feed_page");
}

#[test]
fn import_hashes_runs() {
    run("import_hashes");
}

#[test]
fn import_bitfield_runs() {
    run("import_bitfield");
}

#[test]
fn migrate_demo_runs() {
    run_with("migrate", &["demo", "20000"]);
}

/// Increments a post's counter in its new form, or else in the old one. Returns true if it was the old one.
fn count(client: &mut Client, post: u64) -> bool {
    let new = args!["CINT.INCRBY", format!("post:{post}"), 1, 1, "LEN", 3];
    let old = args!["HINCRBY", format!("post:{post}"), "likes", 1];
    loop {
        for (call, is_old) in [(new.as_slice(), false), (&old, true)] {
            let reply = reply::format(&client.call(call));
            if reply.starts_with("(integer)") {
                return is_old;
            }
            assert!(reply.starts_with("(error) WRONGTYPE"), "{reply}");
        }
    }
}

/// The number of posts at the start; writers create as many again.
const POSTS: u64 = 3000;

#[test]
fn migrate_loses_no_concurrent_write() {
    let server = Server::start();
    let mut client = server.client();
    let hashes: Vec<_> = (0..POSTS)
        .map(|i| args!["HSET", format!("post:{i}"), "reads", i, "likes", 10].to_vec())
        .collect();
    client.pipeline(&hashes);
    client.ok("EXPIREAT post:7 4102444800");
    // Keys that cannot be moved, and keys that do not match.
    client.ok("HSET post:odd reads 1 title x");
    client.ok("HSET other reads 1");
    client.ok("SET post:text hello");
    let stop = AtomicBool::new(false);
    let (output, written) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (mut client, mut written, mut old) = (server.client(), 0, 0);
            while !stop.load(Relaxed) {
                old += u64::from(count(&mut client, written * 7919 % (2 * POSTS)));
                written += 1;
            }
            (written, old)
        });
        let arguments = [
            "post:*",
            "CINT.ADOPT",
            "FIELDS",
            "reads",
            "likes",
            "comments",
        ];
        let output = output(&server, "migrate", &arguments);
        stop.store(true, Relaxed);
        (output, writer.join().expect("the writer ends"))
    });
    let (written, old) = written;
    assert!(written > old && old > 0, "{written} writes, {old} old ones");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.starts_with("3000 keys moved\n"), "{printed}");
    assert!(
        printed.contains("left as it is: post:odd: ") && printed.contains("invalid payload"),
        "{printed}"
    );
    let mut likes = 0;
    for post in 0..2 * POSTS {
        let counters = client.ok(&format!("CINT.MGET post:{post} 0 1"));
        if let [reads, count] = reply::array(counters).as_slice()
            && *count != redis::Value::Nil
        {
            let expected = if post < POSTS { post as i64 } else { 0 };
            assert_eq!(reply::int(reads.clone()), expected, "reads of post:{post}");
            likes += reply::int(count.clone()) as u64;
        }
    }
    assert_eq!(likes, 10 * POSTS + written);
    client.expect("EXPIRETIME post:7", "(integer) 4102444800");
    client.expect("TYPE post:odd", "hash");
    client.expect("TYPE other", "hash");
    client.expect("GET post:text", "\"hello\"");
}

#[test]
fn migrate_takes_strings_and_sets() {
    let server = Server::start();
    let mut client = server.client();
    for line in [
        "SETRANGE cnt:1 4 7",
        "SET cnt:2 12345",
        "SADD likes:1 1 18446744073709551615",
    ] {
        client.ok(line);
    }
    for arguments in [
        ["cnt:*", "CINT.ADOPT", "LEN", "2", "FORCE"].as_slice(),
        &["likes:*", "rbm.adopt"],
    ] {
        let output = output(&server, "migrate", arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
    client.expect("CINT.LEN cnt:1", "(integer) 2");
    client.expect("CINT.GET cnt:2 0", "(integer) 211295614005");
    client.expect("RBM.CARD likes:1", "(integer) 2");
    let usage = output(&server, "migrate", &["likes:*", "DEL"]);
    assert_eq!(usage.status.code(), Some(2));
}

/// Old writers increment a key per post, new writers the tables, both while the keys move.
#[test]
fn to_table_loses_no_concurrent_write() {
    let server = Server::start();
    let mut client = server.client();
    let create = (0..POSTS).map(|i| match i % 2 {
        0 => args!["HSET", format!("post:{i}"), "reads", i, "likes", 10].to_vec(),
        _ => args!["CINT.SET", format!("post:{i}"), "LEN", 3, 0, i, 1, 10].to_vec(),
    });
    client.pipeline(&create.collect::<Vec<_>>());
    let stays = [
        "SET post:1000001 text",
        "HSET post:1000002 reads 1 title x",
        "HSET post:1000003 reads -5",
        "HSET post:1000004 reads 5",
        "CINT.SET post:first 0 1",
        "CINT.SET post:07 0 1",
    ];
    stays.iter().for_each(|line| drop(client.ok(line)));
    client.ok("EXPIREAT post:1000004 4102444800");
    let (stop, end) = (AtomicBool::new(false), AtomicBool::new(false));
    let count = |call: fn(u64) -> Vec<Vec<u8>>, until: &AtomicBool| {
        let (mut client, mut written) = (server.client(), 0u64);
        while !until.load(Relaxed) {
            reply::int(client.call(&call(written * 7919 % POSTS)));
            written += 1;
        }
        written
    };
    let (output, old, new) = std::thread::scope(|scope| {
        let old = scope.spawn(|| {
            count(
                |post| args!["HINCRBY", format!("post:{}", post / 2 * 2), "likes", 1].to_vec(),
                &stop,
            )
        });
        let new = scope.spawn(|| {
            count(
                |post| {
                    args![
                        "CTAB.INCRBY",
                        format!("posts:{}", post / 1000),
                        post,
                        1,
                        1,
                        "LEN",
                        3
                    ]
                    .to_vec()
                },
                &end,
            )
        });
        let mover = scope.spawn(|| {
            output(
                &server,
                "to_table",
                &["post:*", "posts", "1000", "reads", "likes", "comments"],
            )
        });
        // The mover repeats until the old writers stop.
        countint_tests::wait_until("keys have moved", || {
            reply::int(server.client().ok("CTAB.CARD posts:2")) > 900
        });
        stop.store(true, Relaxed);
        let old = old.join().expect("the old writer ends");
        let output = mover.join().expect("the example ends");
        end.store(true, Relaxed);
        (output, old, new.join().expect("the new writer ends"))
    });
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{printed}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let left: Vec<&str> = printed
        .lines()
        .filter_map(|line| line.strip_prefix("left as it is: "))
        .collect();
    let expected = [
        "post:07",
        "post:1000001",
        "post:1000002",
        "post:1000003",
        "post:1000004",
        "post:first",
    ];
    assert_eq!(left, expected, "{printed}");
    assert_eq!(reply::int(client.ok("DBSIZE")), expected.len() as i64 + 3);
    let mut likes = 0;
    for post in 0..POSTS {
        let row =
            reply::array(client.ok(&format!("CTAB.MGET posts:{} {post}", post / 1000))).remove(0);
        let row: Vec<i64> = reply::array(row).into_iter().map(reply::int).collect();
        assert_eq!((row[0], row[2]), (post as i64, 0), "row {post}");
        likes += row[1] as u64;
    }
    assert!(old > 0 && new > 0);
    assert_eq!(likes, 10 * POSTS + old + new);
}

/// `post:comment:7` is not row 7 of `post:*`, and key names need not be UTF-8.
#[test]
fn to_table_moves_matching_keys_only() {
    let server = Server::start();
    let mut client = server.client();
    for line in ["CINT.SET post:7 0 10", "HSET post:71 likes 3"] {
        client.ok(line);
    }
    let stays: [&[u8]; 5] = [
        b"post:",
        b"post:+7",
        b"post:07",
        b"post:comment:7",
        b"post:\xff7",
    ];
    for key in stays {
        let call = args!["CINT.SET", key.to_vec(), "LEN", 1, 0, 1000];
        assert_eq!(reply::format(&client.call(&call)), "OK");
    }
    // A digit at the end of the pattern's prefix is part of the id.
    for (pattern, moved, names) in [(r"\post:7[1]", 1, 0), ("post:*", 1, 5), ("p*", 0, 5)] {
        let output = output(&server, "to_table", &[pattern, "rows", "1000", "likes"]);
        let printed = String::from_utf8_lossy(&output.stdout);
        let mut lines = printed.lines();
        assert_eq!(lines.next(), Some(format!("{moved} keys moved").as_str()));
        assert_eq!(output.status.code(), Some(i32::from(names > 0)));
        if names > 0 {
            let prefix = pattern.trim_end_matches('*');
            let count =
                format!("{names} left; the names of {names} are not \"{prefix}\" and a number");
            assert_eq!(lines.next(), Some(count.as_str()));
        }
        let left: Vec<_> = lines.collect();
        let expected = [
            "left as it is: post:",
            "left as it is: post:+7",
            "left as it is: post:07",
            "left as it is: post:comment:7",
            r"left as it is: post:\xff7",
        ];
        assert_eq!(left, expected[..names], "{pattern}");
    }
    client.expect("CTAB.CARD rows:0", "(integer) 2");
    client.expect("CTAB.GET rows:0 7 0", "(integer) 10");
    client.expect("CTAB.GET rows:0 71 0", "(integer) 3");
    for key in stays {
        let value = client.call(&args!["CINT.GET", key.to_vec(), 0]);
        assert_eq!(reply::format(&value), "(integer) 1000");
    }
}

#[test]
fn to_table_refuses_a_duplicate_field() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("HSET post:7 reads 5 likes 7");
    let arguments = ["post:*", "rows", "1000", "reads", "likes", "reads"];
    let output = output(&server, "to_table", &arguments);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "the field reads is named twice\n"
    );
    client.expect("HGET post:7 likes", "\"7\"");
    client.expect("DBSIZE", "(integer) 1");
}
