//! Imports that are killed at random points and continued, and servers that are killed meanwhile.

use super::setup::{CONFIG, Files, PARTITIONS, set_schema, start};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{self, TestStore, for_each_store};
use crate::support::{on_note, wait_until_drained};
use countint_tests::env::deadline;
use countint_tests::{Server, wait_until};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A random number below `below`.
fn random(below: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0) % below
}

/// Starts `countd import`.
fn spawn(server: &Server, files: &Files, words: &str) -> Child {
    // Written once: another process may be reading it.
    let config = match files.path().join("countd.toml") {
        path if path.exists() => path.display().to_string(),
        _ => files.write("countd.toml", CONFIG),
    };
    Command::new(env!("CARGO_BIN_EXE_countd"))
        .args(["--config", &config, "import"])
        .args(words.split_whitespace())
        .env(
            "COUNTD_REDIS__URL",
            format!("redis://127.0.0.1:{}/", server.port()),
        )
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("countd starts")
}

/// Runs an import to its end, and kills it several times, each time a moment after it has made progress. Returns its last output.
fn run_with_kills(server: &Server, files: &Files, job: &str, words: &str) -> String {
    let mut client = server.client();
    let mut progress = || client.ok(&format!("HMGET countd:import:{job} number records"));
    let mut last = progress();
    for _ in 0..KILLS {
        let mut process = spawn(server, files, words);
        wait_until("the import makes progress or ends", || {
            let has_ended = process.try_wait().expect("a child can be waited for");
            has_ended.is_some() || progress() != last
        });
        thread::sleep(Duration::from_millis(random(60)));
        // It may have ended.
        let _ = process.kill();
        process.wait().expect("a killed process can be waited for");
        last = progress();
    }
    finish(spawn(server, files, words))
}

/// The output of an import, which must succeed.
fn finish(process: Child) -> String {
    let output = process.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const KILLS: usize = 6;
const NOTES: u64 = 500;
const LINES: u64 = 60_000;

/// Two counts for each line.
fn count_lines() -> String {
    let line = |number: u64| format!("note,{},{},2\n", number % NOTES, number % 3);
    let lines: String = (0..LINES).map(line).collect();
    format!("etype,eid,read,comment\n{lines}")
}

fn assert_counts(server: &Server) {
    let countd = start(server);
    let api = countd.api();
    wait_until_drained(server, PARTITIONS);
    for eid in 0..NOTES {
        let numbers = (0..LINES).filter(|number| number % NOTES == eid);
        let (reads, comments) = numbers.fold((0, 0), |(r, c), n| (r + n % 3, c + 2));
        let counts = api.counts(eid);
        assert_eq!(counts["read"], reads, "note {eid}");
        assert_eq!(counts["comment"], comments, "note {eid}");
    }
    assert_invariants(server, CONFIG);
}

fn killed_imports_of_counts_count_once(store: TestStore) {
    let server = &store.server;
    set_schema(server);
    let files = Files::new();
    let file = files.write("counts.csv", count_lines());
    let words = format!("counts --job c {file}");
    let printed = run_with_kills(server, &files, "c", &words);
    assert!(
        printed.contains("verified: 60000 records, no differences"),
        "{printed}"
    );
    assert_counts(server);
}

fn killed_imports_of_facts_count_once(store: TestStore) {
    let server = &store.server;
    let countd = start(server);
    let files = Files::new();
    let mut lines = String::new();
    let (notes, users) = (40, 100);
    for metric in super::setup::STORES {
        for note in 0..notes {
            for uid in 0..users {
                lines += &format!("{metric},note,{note},{uid},{}\n", 10_000 + note % 7);
            }
        }
    }
    let file = files.write("facts.csv", format!("metric,etype,eid,uid,author\n{lines}"));
    let words = format!("facts --job f {file}");
    let printed = run_with_kills(server, &files, "f", &words);
    assert!(printed.contains("no differences"), "{printed}");
    wait_until_drained(server, PARTITIONS);
    let api = countd.api();
    for note in 0..notes {
        for metric in super::setup::STORES {
            assert_eq!(api.counts(note)[metric], users, "{metric} {note}");
        }
    }
    for author in 0..7 {
        let notes = (0..notes).filter(|note| note % 7 == author).count() as u64;
        assert_eq!(api.user(10_000 + author)["likesReceived"], notes * users);
    }
    assert_invariants(server, CONFIG);
}

fn killed_imports_of_authors_credit_once(store: TestStore) {
    let server = &store.server;
    let countd = start(server);
    let api = countd.api();
    let (notes, likes) = (200, 3);
    for note in 0..notes {
        for uid in 0..likes {
            api.act("rbm", on_note(note, uid));
        }
    }
    // Every note moves many times; the last authors of the file count.
    let files = Files::new();
    let line = |n: u64| format!("note,{},{}\n", n % notes, 10_000 + (n / notes + n) % 7);
    let lines: String = (0..40_000).map(line).collect();
    let file = files.write("authors.csv", format!("etype,eid,author\n{lines}"));
    let words = format!("authors --job a {file}");
    let printed = run_with_kills(server, &files, "a", &words);
    assert!(printed.contains("no differences"), "{printed}");
    wait_until_drained(server, PARTITIONS);
    for author in 0..7 {
        let last = 40_000 - notes..40_000;
        let own = last.filter(|n| (n / notes + n) % 7 == author).count() as u64;
        assert_eq!(api.user(10_000 + author)["likesReceived"], own * likes);
    }
    assert_invariants(server, CONFIG);
}

fn killed_imports_of_live_counts_count_once(store: TestStore) {
    let source = Server::builder().no_module().start();
    let mut client = source.client();
    let mut commands = Vec::new();
    for eid in 0..20_000_u64 {
        commands.push(vec![
            "HSET".to_owned(),
            "reads".to_owned(),
            eid.to_string(),
            (eid % 9).to_string(),
        ]);
        commands.push(vec![
            "HSET".to_owned(),
            format!("e:{eid}"),
            "comment".to_owned(),
            "3".to_owned(),
        ]);
    }
    client.pipeline(&commands);
    let server = &store.server;
    set_schema(server);
    let files = Files::new();
    let url = format!("redis://127.0.0.1:{}/", source.port());
    let words = format!(
        "counts --job r --from hash-per-counter --map reads=read --etype note --source {url}"
    );
    run_with_kills(server, &files, "r", &words);
    let words = format!(
        "counts --job e --from hash-per-entity --pattern e:{{id}} --etype note --source {url}"
    );
    let printed = run_with_kills(server, &files, "e", &words);
    assert!(printed.contains("no differences"), "{printed}");
    let countd = start(server);
    for eid in (0..20_000).step_by(97) {
        let counts = countd.api().counts(eid);
        assert_eq!(
            (&counts["read"], &counts["comment"]),
            (&(eid % 9).into(), &3.into())
        );
    }
    assert_invariants(server, CONFIG);
}

for_each_store! {
    [module objects plain cluster]
    killed_imports_of_counts_count_once
    killed_imports_of_facts_count_once
    killed_imports_of_authors_credit_once
    killed_imports_of_live_counts_count_once
    concurrent_runs_count_once
}

/// Two runs at the same time: one of them stops.
fn concurrent_runs_count_once(store: TestStore) {
    let server = &store.server;
    set_schema(server);
    let files = Files::new();
    let file = files.write("counts.csv", count_lines());
    let words = format!("counts --job c {file}");
    let runs: Vec<Child> = (0..3).map(|_| spawn(server, &files, &words)).collect();
    let mut succeeded = 0;
    for run in runs {
        let output = run.wait_with_output().expect("it ends");
        let errors = String::from_utf8_lossy(&output.stderr);
        match output.status.success() {
            true => succeeded += 1,
            false => assert!(errors.contains("another run of this import"), "{errors}"),
        }
    }
    assert!(succeeded > 0);
    assert_counts(server);
}

/// A server that is killed loses up to the last second of its writes.
#[test]
fn records_that_a_killed_server_lost_are_applied_again() {
    let mut store = stores::module();
    let files = Files::new();
    set_schema(&store.server);
    let file = files.write("counts.csv", count_lines());
    let mut import = spawn(&store.server, &files, &format!("counts --job c {file}"));
    let started = Instant::now();
    for _ in 0..4 {
        thread::sleep(Duration::from_millis(200 + random(400)));
        if import
            .try_wait()
            .expect("a child can be waited for")
            .is_some()
        {
            break;
        }
        store.restart();
        assert!(started.elapsed() < deadline(120), "it ends");
    }
    let printed = finish(import);
    assert!(printed.contains("no differences"), "{printed}");
    assert_counts(&store.server);
}
