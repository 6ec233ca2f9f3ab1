//! Values in both forms: each step of an adoption finds them in the form that they have.

use super::setup::{
    CONFIG, OTHER_FACT_STORES, PARTITIONS, action, adopt, assert_adopted, send_all,
};
use crate::migrate::setup::wait_for_epoch;
use crate::support::conversions::assert_converted;
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, adoptable, cluster_adoptable};
use crate::support::workload::{WorkloadSize, run_clients};
use crate::support::{Api, Countd, Settings, on_note, set_schema, wait_until_drained};
use countint_tests::{Client, reply};
use serde_json::{Value as Json, json};

const SIZE: WorkloadSize = WorkloadSize {
    clients: 6,
    users: 10,
    notes: 60,
    actions_per_client: 1_500,
    batch: 10,
    erasures: 2,
};

/// Lets the processes follow a step of an adoption, which no command does.
fn record(client: &mut Client, step: &str) {
    client.ok(&format!("HSET countd:layout counters {step}"));
    let epoch = reply::int(client.ok("HINCRBY countd:layout epoch 1"));
    wait_for_epoch(client, epoch);
}

/// Data changes its form in both directions, more often than in an adoption.
fn assert_counts_match_when_steps_alternate(mut store: TestStore, config: &'static str) {
    set_schema(&store.server, config);
    let settings = |command| Settings { command, config };
    let processes = ["serve", "all"].map(|command| Countd::with(&store.server, &settings(command)));
    let apis = [processes[0].api(), processes[1].api()];
    store.server.load_module();
    let model = run_clients(&apis, 17, SIZE, |progress| {
        let mut client = store.server.client();
        for (turn, step) in ["plain-or-module", "module-or-plain"]
            .iter()
            .cycle()
            .enumerate()
            .take(8)
        {
            progress.wait_for(SIZE.total() * (turn as u64 + 1) / 10);
            record(&mut client, step);
        }
    });
    let (data, result) = ((&store.server, config), (&model, SIZE));
    assert_converted(data, &apis[..1], result, PARTITIONS);
    adopt(&store.server, config);
    assert_converted(data, &apis[1..], result, PARTITIONS);
    assert_adopted(&store.server, config);
}

#[test]
fn counts_match_the_model_when_steps_alternate() {
    assert_counts_match_when_steps_alternate(adoptable(), &CONFIG);
}

#[test]
fn counts_match_the_model_when_steps_alternate_with_other_fact_stores() {
    assert_counts_match_when_steps_alternate(adoptable(), &OTHER_FACT_STORES);
}

#[test]
fn counts_match_the_model_when_steps_alternate_in_cluster_mode() {
    assert_counts_match_when_steps_alternate(cluster_adoptable(), &CONFIG);
}

fn timeline(api: &Api, uid: u64) -> Vec<u64> {
    let page = api.ok(api.get(&format!("/user/{uid}/like/note?limit=100")));
    ids_of(&page["items"]).collect()
}

/// Facts of data without the module are removed and added again while both forms exist. Each is in one place.
#[test]
fn facts_are_in_one_form_only() {
    let mut store = adoptable();
    let countd = Countd::start(&store.server, &CONFIG);
    let (api, mut client) = (countd.api(), store.server.client());
    for note in 1..=40 {
        api.act("like", on_note(note, 1));
    }
    api.act("repost", json!({ "etype": "note", "eid": 1, "uid": 1 }));
    wait_until_drained(&store.server, PARTITIONS);
    store.server.load_module();
    for step in ["plain-or-module", "module-or-plain"] {
        record(&mut client, step);
        // A newest and an older fact of the user's timeline.
        for note in [40, 2] {
            let removed = api.act("unlike", on_note(note, 1));
            assert_eq!(removed["changed"], true, "{step}: {removed}");
            assert_eq!(api.counts(note)["like"], 0, "{step}");
            wait_until_drained(&store.server, PARTITIONS);
            assert!(!timeline(&api, 1).contains(&note), "{step}");
            let repeated = api.act("unlike", on_note(note, 1));
            assert_eq!(repeated["changed"], false, "{step}");
            api.act("like", on_note(note, 1));
            wait_until_drained(&store.server, PARTITIONS);
            let listed = timeline(&api, 1);
            assert_eq!(
                listed.iter().filter(|id| **id == note).count(),
                1,
                "{step}: {listed:?}"
            );
        }
        assert_eq!(timeline(&api, 1).len(), 40, "{step}");
    }
    adopt(&store.server, &CONFIG);
    let mut listed = timeline(&api, 1);
    listed.sort_unstable();
    assert_eq!(listed, (1..=40).collect::<Vec<u64>>());
    assert_invariants(&store.server, &CONFIG);
    assert_adopted(&store.server, &CONFIG);
}

fn ids_of(items: &Json) -> impl Iterator<Item = u64> {
    let items = items.as_array().expect("items").iter();
    items.map(|item| {
        let id = item["eid"].as_str().or(item.as_str()).expect("an ID");
        id.parse().expect("a number")
    })
}

/// A cursor of a page of a Set is valid when the Set has become a set of IDs, and no user is missing.
#[test]
fn listings_go_on_when_their_set_is_converted() {
    let mut store = adoptable();
    let countd = Countd::start(&store.server, &CONFIG);
    let api = countd.api();
    let likes = (1..=900).map(|uid| action("like", 7, uid));
    let favs = (1..=60).map(|note| action("fav", note, 1));
    send_all(&store.server, &api, &likes.chain(favs).collect::<Vec<_>>());
    // Reads up to three pages, the first one without a cursor.
    let read = |path: &str, field: &str, (mut found, mut cursor): (Vec<u64>, Option<String>)| {
        for _ in 0..3 {
            let from = cursor.map(|cursor| format!("&cursor={cursor}"));
            let from = from.unwrap_or_default();
            let page = api.ok(api.get(&format!("{path}?limit=15{from}")));
            found.extend(ids_of(&page[field]));
            cursor = page["cursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        (found, cursor)
    };
    let listings = [
        ("/who/like/note/7", "users", 900),
        ("/user/1/fav/note", "items", 60),
    ];
    let begun = listings.map(|(path, field, _)| read(path, field, (Vec::new(), None)));
    store.server.load_module();
    record(&mut store.server.client(), "plain-or-module");
    // One goes on while both forms exist, and both when the data is converted.
    let [likes, favs] = begun;
    let likes = read(listings[0].0, listings[0].1, likes);
    adopt(&store.server, &CONFIG);
    for ((path, field, count), (mut found, mut cursor)) in listings.into_iter().zip([likes, favs]) {
        assert!(cursor.is_some(), "{path}: {found:?}");
        while cursor.is_some() {
            (found, cursor) = read(path, field, (found, cursor));
        }
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, (1..=count).collect::<Vec<u64>>(), "{path}");
    }
}
