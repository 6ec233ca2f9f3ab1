//! What tests of rebuilds share.

pub use crate::facts::setup::{PARTITIONS, STORES, on, start};
pub use crate::support::stores::TestStore;
pub use crate::support::{Api, Countd};
pub use countint_tests::reply;
pub use serde_json::{Value as Json, json};
pub use std::collections::BTreeMap;

/// The users of each note.
pub const USERS: [u64; 4] = [0, 7, 32_768, 99_999];

/// Users act on notes with every fact store.
pub fn act_on(api: &Api, notes: impl IntoIterator<Item = u64>) {
    for eid in notes {
        for metric in STORES {
            for uid in USERS {
                api.act(metric, on(eid, uid));
            }
        }
    }
}

/// The counters of a note on which [`act_on`] acted.
pub fn expected() -> Json {
    json!({ "rbm": 4, "bitmap": 4, "daily": 4, "sharded": 4, "join": 0 })
}

pub fn entity(eid: u64) -> String {
    format!("note:{eid}")
}

/// Deletes the counters of a note.
pub fn lose(store: &TestStore, eid: u64) {
    let key = store.counters("f1", &entity(eid), PARTITIONS);
    let lost = match store.has_tables {
        true => store.server.client().ok(&format!("CTAB.DEL {key} {eid}")),
        false => store.server.client().ok(&format!("DEL {key}")),
    };
    assert_eq!(reply::int(lost), 1);
}

/// The entries of all audits, as fields and values.
pub fn audit(store: &TestStore) -> Vec<BTreeMap<String, String>> {
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
pub fn corrections(store: &TestStore, eid: u64) -> Vec<String> {
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
pub const ALL: [&str; 4] = ["bitmap 4", "daily 4", "rbm 4", "sharded 4"];

pub fn start_countd(store: &TestStore) -> (Countd, Api) {
    let countd = start(&store.server);
    let api = countd.api();
    (countd, api)
}
