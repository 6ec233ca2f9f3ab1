//! Poison messages in batches of events that change rankings.

use super::{PARTITIONS, check, config, items, notes, on, page, wait_until_right};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{
    Countd, Settings, dead_reasons, printed, run, set_schema, wait_until_drained,
};
use serde_json::json;

for_each_store! {
    [module objects plain cluster]
    dead_letters_leave_the_ranking_exact
}

/// Entries that cannot be counted, in the logs of notes with events of the same batch.
fn dead_letters_leave_the_ranking_exact(store: TestStore) {
    let config = &config();
    set_schema(&store.server, config);
    let settings = |command| Settings { command, config };
    let mut consumer = Countd::with(&store.server, &settings("consume"));
    let serve = Countd::with(&store.server, &settings("serve"));
    let api = serve.api();
    // The ranking is complete, so no pass computes the scores later.
    wait_until_right(&api);
    consumer.stop();
    let mut client = store.server.client();
    let damaged = "n.4";
    assert!(notes().contains(&damaged.to_owned()));
    let partition = TestStore::partition(&format!("note:{damaged}"), PARTITIONS);
    // Likes of the note cannot be counted while the authors of its partition have another type.
    let authors = match store.is_cluster() {
        true => format!("auth:note:{{{partition}}}"),
        false => format!("auth:note:{partition}"),
    };
    client.ok(&format!("RPUSH {authors} x"));
    let mut poisoned = 0;
    let others = notes().into_iter().filter(|eid| eid != damaged);
    for (number, eid) in others.enumerate() {
        let eid = &eid;
        for uid in 0..=(number as u64 % 7) {
            api.act("comment", on(eid, uid));
        }
        let log = store.log(TestStore::partition(&format!("note:{eid}"), PARTITIONS));
        if number % 6 == 0 {
            let unknown = json!({ "schema": "v9", "etype": "note", "eid": eid, "metric": "comment", "delta": 1, "uid": "1", "ts": 1 });
            for entry in ["nonsense", &unknown.to_string()] {
                client.call(&["XADD", &log, "0-*", "e", entry]);
                poisoned += 1;
            }
        }
        api.act("like", on(eid, 3));
    }
    // All events of the first of the ranking become dead letters.
    for uid in 10..40 {
        api.act("like", on(damaged, uid));
    }
    consumer.launch();
    wait_until_drained(&store.server, PARTITIONS);
    let dead = dead_reasons(&store.server, config);
    assert!(dead.len() >= poisoned + 30, "{dead:?}");
    let before = wait_until_right(&api);
    assert_eq!(items(&before).len(), super::TOP);
    assert_eq!(items(&before)[0].0, damaged, "{before}");
    client.ok(&format!("DEL {authors}"));
    // What can be counted now is in the ranking.
    printed(&run(&store.server, config, &["dead", "retry", "--all"]));
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(dead_reasons(&store.server, config).len(), poisoned);
    wait_until_right(&api);
    api.act("like", on(damaged, 40));
    wait_until_drained(&store.server, PARTITIONS);
    let last = wait_until_right(&api);
    assert_eq!(items(&last)[0].0, damaged, "{last}");
    assert!(check(&api, &page(&api, "").1));
}
