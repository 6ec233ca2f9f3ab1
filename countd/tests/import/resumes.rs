//! Imports that continue from a state that a crash could have left.

use super::setup::{Files, imported, outcome, set_schema, start};
use crate::support::stores::{TestStore, for_each_store};
use countint_tests::{Server, reply};

const NOTES: u64 = 90;
const LINES: u64 = 9_000;

/// A file whose last record is invalid: with it, an import stops after everything else was applied.
fn interrupted(server: &Server, files: &Files) -> String {
    set_schema(server);
    let lines: String = (0..LINES)
        .map(|number| format!("note,n-{},1\n", number % NOTES))
        .collect();
    let file = files.write("c.csv", format!("etype,eid,comment\n{lines}note,1,x\n"));
    let (status, _, errors) = outcome(server, "counts --job c", &file);
    assert!(status == 1 && errors.contains("c.csv:9002: "), "{errors}");
    file
}

/// Continues the import, and checks that every line counts once.
#[track_caller]
fn assert_continues(server: &Server, file: &str) {
    let printed = imported(server, "counts --job c --skip-invalid 1", file);
    assert!(printed.starts_with("imported: 9000 records"), "{printed}");
    assert!(
        printed.contains("verified: 9000 records, no differences"),
        "{printed}"
    );
    let countd = start(server);
    let api = countd.api();
    for eid in 0..NOTES {
        let counter = api.ok(api.get(&format!("/counter/note/n-{eid}")));
        assert_eq!(counter["counts"]["comment"], LINES / NOTES);
    }
}

fn parts_are_applied_once(store: TestStore) {
    let (server, files) = (&store.server, Files::new());
    let file = interrupted(server, &files);
    // Killed between a part and the record of its end: the next run sends parts again.
    let mut client = server.client();
    client.ok("HSET countd:import:c number 0 offset 0 line 0 records 0");
    assert_continues(server, &file);
}

fn what_a_restarted_server_lost_is_applied_again(store: TestStore) {
    let (server, files) = (&store.server, Files::new());
    let file = interrupted(server, &files);
    // Another server, without the counters and what was applied to them.
    let mut client = server.client();
    for pattern in ["cnt:i1:*", "countd:import:c:state*"] {
        for key in reply::array(client.ok(&format!("KEYS {pattern}"))) {
            client.ok(&format!("DEL {}", reply::text(key)));
        }
    }
    client.ok("HSET countd:import:c servers another");
    assert_continues(server, &file);
}

fn a_delayed_call_of_a_finished_import_changes_nothing(store: TestStore) {
    let (server, files) = (&store.server, Files::new());
    set_schema(server);
    let file = files.write("c.csv", "etype,eid,comment\nnote,1,2\nnote,n-2,3\n");
    imported(server, "counts --job c", &file);
    // The state as the delayed run has seen it.
    let mut client = server.client();
    client.ok("HDEL countd:import:c state");
    client.ok("HSET countd:import:c number 0 offset 0 line 0 records 0");
    let printed = imported(server, "counts --job c", &file);
    assert!(printed.contains("(0 changed something now)"), "{printed}");
    assert!(printed.contains("no differences"), "{printed}");
}

fn entities_of_a_live_source_are_applied_once(store: TestStore) {
    let source = Server::builder().no_module().start();
    let (server, mut client) = (&store.server, source.client());
    set_schema(server);
    let pairs: Vec<String> = (1..=3_000)
        .map(|eid| format!("{eid} 3 n-{eid} 4"))
        .collect();
    client.ok(&format!("HSET hash {}", pairs.join(" ")));
    client.ok("SET other x");
    let words = format!(
        "counts --job c --etype note --from hash-per-counter --map hash=comment,other=read --source redis://127.0.0.1:{}/",
        source.port()
    );
    // The second key is invalid: the import stops after the first one was applied.
    let (status, _, errors) = outcome(server, &words, "");
    assert!(status == 1 && errors.contains("key other: "), "{errors}");
    let mut client = server.client();
    // Killed before the cursor was stored: all fields are read again.
    client.ok("HDEL countd:import:c cursor");
    client.ok("HSET countd:import:c records 0");
    let printed = imported(server, &format!("{words} --skip-invalid 1"), "");
    assert!(
        printed.starts_with("imported: 6000 records (0 changed"),
        "{printed}"
    );
    assert!(printed.contains("no differences"), "{printed}");
}

for_each_store! {
    [module objects plain cluster]
    parts_are_applied_once
    what_a_restarted_server_lost_is_applied_again
    a_delayed_call_of_a_finished_import_changes_nothing
    entities_of_a_live_source_are_applied_once
}
