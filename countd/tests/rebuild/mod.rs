//! Lost counters are rebuilt from the facts that they count.

mod pages;
mod reads;
mod stampede;
mod writes;

use crate::facts::setup::{PARTITIONS, STORES, on, start};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, Countd};
use countint_tests::reply;
use pages::*;
use reads::*;
use serde_json::{Value as Json, json};
use stampede::*;
use std::collections::BTreeMap;
use writes::*;

/// The users of each note.
const USERS: [u64; 4] = [0, 7, 32_768, 99_999];

/// Users act on notes with every fact store.
fn act_on(api: &Api, notes: impl IntoIterator<Item = u64>) {
    for eid in notes {
        for metric in STORES {
            for uid in USERS {
                api.act(metric, on(eid, uid));
            }
        }
    }
}

/// The counters of a note on which [`act_on`] acted.
fn expected() -> Json {
    json!({ "rbm": 4, "bitmap": 4, "daily": 4, "sharded": 4, "join": 0 })
}

fn entity(eid: u64) -> String {
    format!("note:{eid}")
}

/// Deletes the counters of a note.
fn lose(store: &TestStore, eid: u64) {
    let key = store.counters("f1", &entity(eid), PARTITIONS);
    let lost = match store.has_tables {
        true => store.server.client().ok(&format!("CTAB.DEL {key} {eid}")),
        false => store.server.client().ok(&format!("DEL {key}")),
    };
    assert_eq!(reply::int(lost), 1);
}

/// The entries of all audits, as fields and values.
fn audit(store: &TestStore) -> Vec<BTreeMap<String, String>> {
    let mut client = store.server.client();
    let keys: Vec<String> = match store.is_cluster() {
        true => (0..PARTITIONS)
            .map(|p| format!("x:audit:cntfix:{{{p}}}"))
            .collect(),
        false => vec!["x:audit:cntfix".to_owned()],
    };
    let mut entries = Vec::new();
    for key in keys {
        for entry in reply::array(client.ok(&format!("XRANGE {key} - +"))) {
            let words = reply::array(reply::array(entry).remove(1)).into_iter();
            let words: Vec<String> = words.map(reply::text).collect();
            let pairs = words.chunks(2);
            entries.push(
                pairs
                    .map(|pair| (pair[0].clone(), pair[1].clone()))
                    .collect(),
            );
        }
    }
    entries
}

/// The metric, the difference and the note of each entry of the audits of a note, in order.
fn corrections(store: &TestStore, eid: u64) -> Vec<String> {
    let entries = audit(store).into_iter();
    let of_note = entries.filter(|entry| entry["eid"] == eid.to_string());
    let mut found: Vec<String> = of_note
        .map(|entry| {
            assert_eq!(entry["source"], "rebuild");
            let note = entry.get("note").map(|note| format!(" {note}"));
            let note = note.unwrap_or_default();
            format!("{} {}{note}", entry["metric"], entry["difference"])
        })
        .collect();
    found.sort();
    found
}

/// The corrections of a note whose counters were lost.
const ALL: [&str; 4] = ["bitmap 4", "daily 4", "rbm 4", "sharded 4"];

fn start_countd(store: &TestStore) -> (Countd, Api) {
    let countd = start(&store.server);
    let api = countd.api();
    (countd, api)
}

for_each_store!([module objects plain cluster cluster_objects]
    deleted_counters_are_rebuilt_on_read
    deleted_counters_of_a_page_are_rebuilt
    a_key_of_another_type_is_rebuilt_alone_in_a_page
    a_batched_counter_is_rebuilt_when_the_log_is_drained
    the_loser_answers_from_the_facts
    verified_zeros_cost_no_further_command
    the_author_is_credited_after_a_rebuild
    a_field_without_source_is_unrecoverable_and_audited
    a_like_on_a_lost_counter_does_not_make_it_one
    a_pipeline_on_lost_counters_rebuilds_them
    a_thousand_readers_cause_one_rebuild
    a_commit_on_a_damaged_key_rebuilds_it
);

/// Tests of counters that are objects.
mod of_objects {
    use super::*;

    for_each_store!([objects plain cluster_objects]
        a_truncated_counter_keeps_its_other_fields
    );
}
