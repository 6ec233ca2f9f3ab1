//! What clients get in each stage.

use super::setup::{
    BOTH, CONFIG, NEW, OLD, PARTITIONS, assert_refused, counts, migrate, names, numbers,
    set_schemas,
};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd, Settings, on_note, printed, run, wait_until_drained, with};
use serde_json::json;
use std::ops::Range;

const NOTES: Range<u64> = 0..60;

for_each_store!([module objects cluster plain] clients_get_the_counters_of_the_schema_of_each_stage);

/// Performs each metric on each note.
fn act_on_all(api: &Api, round: u64, metrics: &[&str]) {
    for note in NOTES {
        for metric in metrics {
            let key = format!("{metric}-{note}-{round}");
            let action = with(on_note(note, 100 + round), json!({ "idempotencyKey": key }));
            api.act(metric, action);
        }
    }
}

/// Asserts that each note has one of these lists of counters, and all counters `expected`. Returns how many have the first list.
#[track_caller]
fn assert_counts(api: &Api, lists: &[&[&str]], expected: &[(&str, u64)]) -> usize {
    let mut first = 0;
    for note in NOTES {
        let found = counts(api, note);
        assert!(
            lists.contains(&&names(&found)[..]),
            "note {note}: {found:?}"
        );
        first += usize::from(names(&found) == lists[0]);
        for (name, count) in found {
            let expected = expected.iter().find(|(known, _)| *known == name);
            assert_eq!(
                Some(count),
                expected.map(|(_, count)| *count),
                "{name} of {note}"
            );
        }
    }
    first
}

/// Asserts that a counter that is asked for by its name is returned under this name, in all stages.
#[track_caller]
fn assert_named(api: &Api, name: &str, expected: u64) {
    for note in NOTES {
        let json = api.ok(api.get(&format!("/counter/note/{note}?metrics={name}")));
        let found = numbers(&json["counts"]);
        assert_eq!(found, [(name.to_owned(), expected)].into(), "note {note}");
    }
}

fn clients_get_the_counters_of_the_schema_of_each_stage(store: TestStore) {
    let server = &store.server;
    set_schemas(server);
    let (command, config): (_, &str) = ("all", &CONFIG);
    let countd = Countd::with(server, &Settings { command, config });
    let api = countd.api();
    let old = &["like", "fav", "read", "comment", "repost"];
    act_on_all(&api, 1, old);
    let unknown = api.post("/action/share", &on_note(1, 1));
    assert_eq!(unknown.0, 422, "{}", unknown.1);
    wait_until_drained(server, PARTITIONS);

    // Both are complete; reads return the old one.
    assert!(migrate(server, &["--status"]).contains("not begun"));
    assert!(migrate(server, &[]).contains("read-new, reads of 0 %"));
    act_on_all(
        &api,
        2,
        &["like", "fav", "read", "comment", "repost", "share"],
    );
    wait_until_drained(server, PARTITIONS);
    let all = [
        ("like", 2),
        ("liked", 2),
        ("fav", 2),
        ("favs", 2),
        ("read", 2),
        ("comment", 2),
        ("repost", 2),
        ("share", 1),
    ];
    assert_eq!(assert_counts(&api, &[&OLD], &all), NOTES.count());
    for (name, count) in all {
        assert_named(&api, name, count);
    }

    // By percent of the entities, up and down.
    migrate(server, &["--percent", "40"]);
    let old_ones = assert_counts(&api, &[&OLD, &NEW], &all);
    assert!((1..NOTES.count()).contains(&old_ones), "{old_ones}");
    let of_note = |note: u64| names(&counts(&api, note)).join(" ");
    let before: Vec<String> = NOTES.map(of_note).collect();
    assert!(migrate(server, &["--status"]).contains("read-new, reads of 40 %"));
    migrate(server, &["--percent", "80"]);
    let after: Vec<String> = NOTES.map(of_note).collect();
    let (new, mut pairs) = (NEW.join(" "), before.iter().zip(&after));
    assert!(pairs.all(|(before, after)| *before != new || *after == new));
    migrate(server, &["--percent", "0"]);
    assert_counts(&api, &[&OLD], &all);
    assert_refused(server, &["--done"], "use --percent 100 first");
    migrate(server, &["--percent", "100"]);
    assert_counts(&api, &[&NEW], &all);
    let feed = json!({ "uid": "102", "items": [{ "etype": "note", "eid": "7" }] });
    let feed = api.ok(api.post("/feed", &feed));
    assert_eq!(names(&numbers(&feed["items"][0]["counts"])), NEW);

    // What is dropped is unknown to clients, and keeps its count.
    assert!(migrate(server, &["--done"]).contains("done, reads of 100 %"));
    assert_counts(&api, &[&NEW], &all);
    for (old, new) in BOTH {
        assert_named(&api, old, 2);
        assert_named(&api, new, 2);
    }
    assert_eq!(api.get("/counter/note/1?metrics=repost").0, 422);
    assert_eq!(api.post("/action/repost", &on_note(1, 1)).0, 422);
    act_on_all(&api, 3, &["like", "share"]);
    wait_until_drained(server, PARTITIONS);
    let all = [
        ("like", 3),
        ("liked", 3),
        ("fav", 2),
        ("favs", 2),
        ("read", 2),
        ("comment", 2),
        ("repost", 2),
        ("share", 2),
    ];
    assert_counts(&api, &[&NEW], &all);

    // A process whose configuration names the new schema uses the same counters.
    let named = format!("{}[entities]\nnote = \"v2\"\n", *CONFIG);
    let other = Countd::with(
        server,
        &Settings {
            command: "serve",
            config: &named,
        },
    );
    assert_counts(&other.api(), &[&NEW], &all);
    act_on_all(&other.api(), 4, &["like"]);
    wait_until_drained(server, PARTITIONS);
    let all = all.map(|(name, count)| (name, count + u64::from(name.starts_with("like"))));
    assert_counts(&api, &[&NEW], &all);

    // Back, from the last stage.
    assert!(migrate(server, &["--rollback"]).contains("rolled-back, reads of 0 %"));
    for api in [&api, &other.api()] {
        assert_counts(api, &[&OLD], &all);
        assert_eq!(api.get("/counter/note/1?metrics=share").0, 422);
    }
    act_on_all(&api, 5, &["like", "repost"]);
    wait_until_drained(server, PARTITIONS);
    drop(other);
    let all = all.map(|(name, count)| match name {
        "like" | "liked" | "repost" => (name, count + 1),
        _ => (name, count),
    });
    assert_counts(&api, &[&OLD], &all);

    // And once more, with what was added the first time.
    migrate(server, &["--percent", "100"]);
    migrate(server, &["--done"]);
    assert_counts(&api, &[&NEW], &all);
    assert_eq!(printed(&run(server, config, &["dead", "list"])), "");
    assert_invariants(server, config);
}
