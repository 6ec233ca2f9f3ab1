//! Erasures while many clients act on the same entities and users: everything that is not erased is exact.

use super::{CONFIG, PARTITIONS, on, search::holders, wait_until_done, with};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, cluster, module};
use crate::support::verify::assert_matches_model;
use crate::support::workload::{Progress, WorkloadSize, authors, metrics, run_clients};
use crate::support::{Api, Countd, Settings, set_schema, wait_until_drained};
use serde_json::json;

const SIZE: WorkloadSize = WorkloadSize {
    clients: 6,
    users: 10,
    notes: 60,
    actions_per_client: 1_500,
    batch: 25,
    erasures: 2,
};
/// The number of erasures of each kind.
const ROUNDS: u64 = 4;

#[test]
fn erasures_are_exact_under_traffic() {
    erase_under_traffic(&module());
}

#[test]
fn erasures_are_exact_under_traffic_in_cluster_mode() {
    erase_under_traffic(&cluster());
}

/// Users and entities beside those of the model.
fn user(round: u64) -> String {
    format!("91234567890123400{round}")
}

fn note(round: u64) -> String {
    format!("81234567890123400{round}")
}

/// A user acts on the notes and users of the model.
fn act_as(api: &Api, uid: &str) {
    for note in 0..SIZE.notes {
        api.act("like", on(&note.to_string(), uid));
        api.act("fav", on(&note.to_string(), uid));
    }
    for other in 1..=SIZE.clients * SIZE.users {
        api.act("follow", json!({ "eid": other.to_string(), "uid": uid }));
        api.act("follow", json!({ "eid": uid, "uid": other.to_string() }));
    }
}

/// Users of the model act on a note of an author of the model.
fn act_on(api: &Api, note: &str) {
    let author = authors().next().expect("an author");
    for uid in 1..=SIZE.clients * SIZE.users {
        let action = with(on(note, &uid.to_string()), json!({ "author": author }));
        api.act("like", action.clone());
        api.act("fav", action);
    }
}

fn erase_under_traffic(store: &TestStore) {
    let timelines = "[metrics.like]\norder = \"time\"\nlatest = 20\n";
    let metrics = metrics().replace("[metrics.like]\n", timelines);
    let config = &format!("{CONFIG}[changes]\nenabled = true\n{metrics}");
    set_schema(&store.server, config);
    let settings = |command| Settings { command, config };
    let serve = Countd::with(&store.server, &settings("serve"));
    let mut consumers =
        ["consume", "consume"].map(|command| Countd::with(&store.server, &settings(command)));
    let api = serve.api();
    let erase = |progress: &Progress| {
        for round in 0..ROUNDS {
            act_as(&api, &user(round));
            act_on(&api, &note(round));
            let jobs = [
                format!("/user/{}", user(round)),
                format!("/entity/note/{}", note(round)),
            ];
            let jobs = jobs.map(|path| {
                let (status, job) = api.delete(&path);
                assert_eq!(status, 202, "{job}");
                format!("/jobs/{}", job["id"].as_str().expect("an ID"))
            });
            let consumer = &mut consumers[(round % 2) as usize];
            consumer.kill();
            consumer.launch();
            for job in jobs {
                wait_until_done(&api, &job);
            }
            progress.wait_for(1);
        }
    };
    let model = run_clients(std::slice::from_ref(&serve.api()), 7, SIZE, erase);
    wait_until_drained(&store.server, PARTITIONS);
    assert_matches_model(&serve.api(), &model, SIZE);
    assert_invariants(&store.server, config);
    let mut client = store.server.client();
    for round in 0..ROUNDS {
        for erased in [user(round), note(round)] {
            let mut found = holders(&mut client, &erased);
            // The announcement that an entity has changed stays.
            found.retain(|holder| erased == user(round) || !holder.starts_with("x:changes"));
            assert!(found.is_empty(), "{found:#?}");
        }
    }
}
