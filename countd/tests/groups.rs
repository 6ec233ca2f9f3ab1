//! Concurrent actions on one entity are executed in groups, with the same results and counts as one after the other.

use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::workload::Random;
use crate::support::{
    Api, Countd, Settings, on_note, pause, printed, run, set_schema, wait_until_drained, with,
};
use countint_tests::{Value, reply, wait_until};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

const PARTITIONS: u16 = 16;
/// Logs keep all entries.
pub const CONFIG: &str = "[log]\npartitions = 16\nretain = 1000000\nretain_bytes = 100000000\n[consumer]\nlinger_ms = 5\nsession_timeout_ms = 500\n\
    [limits]\nuser = { per_second = 100000, burst = 1000000 }\n";
/// The note that all clients act on.
pub const NOTE: u64 = 7;
const AUTHOR: u64 = 99;
const CLIENTS: u64 = 24;
const USERS_OF_CLIENT: u64 = 10;

for_each_store! {
    [module cluster]
    clients_that_leave_do_not_end_their_group
    grouped_actions_are_exact
    grouped_actions_are_exact_when_processes_and_redis_are_killed
}

/// For each user whether they like the note.
pub type Facts = BTreeMap<u64, bool>;

/// The number of users who like the note.
pub fn likes(facts: &Facts) -> u64 {
    facts.values().filter(|likes| **likes).count() as u64
}

/// Lets clients like and unlike a note at the same time, each for users of its own. `act` sends an action and returns its outcome.
/// Updates `facts`, and checks the outcomes.
fn act_at_once(facts: &mut Facts, seed: u64, actions: u64, act: impl Fn(&Json) -> Json + Sync) {
    let act = &act;
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let first = 1_000 * (client + 1);
                let of_client = facts.range(first..first + USERS_OF_CLIENT);
                let mut facts: Facts = of_client.map(|(uid, likes)| (*uid, *likes)).collect();
                scope.spawn(move || {
                    let mut random = Random(1_000 * seed + client);
                    for _ in 0..actions {
                        let uid = first + random.below(USERS_OF_CLIENT);
                        let adds = random.below(2) == 0;
                        let op = if adds { "add" } else { "remove" };
                        let action =
                            with(on_note(NOTE, uid), json!({ "op": op, "author": AUTHOR }));
                        let outcome = act(&action);
                        let changes = facts.insert(uid, adds).unwrap_or(false) != adds;
                        // An action that was sent again may have been executed before.
                        if outcome["again"] != true {
                            assert_eq!(outcome["changed"], changes, "{action}: {outcome}");
                        }
                        let count = outcome["count"].as_u64().expect("a count");
                        assert!(count >= likes(&facts), "{action}: {outcome}");
                    }
                    facts
                })
            })
            .collect();
        for client in clients {
            facts.extend(client.join().expect("a client ends"));
        }
    });
}

/// Lets clients act on the note until some of their actions were grouped.
pub fn act_in_groups(store: &TestStore, api: &Api, facts: &mut Facts) {
    let groups = || [store.calls_of("rbm.mmark"), store.calls_of("rbm.munmark")];
    let before = groups();
    // Each call acts otherwise.
    let mut round = 1_000 * before[0];
    wait_until("actions are grouped", || {
        round += 1;
        act_at_once(facts, round, 50, |action| api.act("like", action.clone()));
        let after = groups();
        after[0] > before[0] && after[1] > before[1]
    });
}

/// The metric and the users of an entry of the log, and whether it adds facts. `None` if it is not an event.
pub fn change_of(entry: Value) -> Option<(String, Vec<String>, bool)> {
    let fields = reply::array(reply::array(entry).remove(1));
    let fields: Vec<String> = fields.into_iter().map(reply::text).collect();
    let event: Json = serde_json::from_str(&fields[1]).expect("entries are JSON");
    let users = match fields[0].as_str() {
        "e" => vec![event["uid"].as_str().expect("a user").to_owned()],
        "g" => {
            assert_eq!(fields[2], "members", "{fields:?}");
            fields[3].split(',').map(str::to_owned).collect()
        }
        _ => return None,
    };
    let metric = event["metric"].as_str().expect("a metric").to_owned();
    Some((metric, users, event["delta"] == 1))
}

/// Asserts that the facts, the counters and the log agree with the model.
fn assert_exact(store: &TestStore, config: &str, api: &Api, facts: &Facts) {
    wait_until_drained(&store.server, PARTITIONS);
    let likes = likes(facts);
    assert_eq!(api.counts(NOTE)["like"], likes);
    assert_eq!(api.user(AUTHOR)["likesReceived"], likes);
    let mut logged = Facts::new();
    let log = store.log(TestStore::partition(&format!("note:{NOTE}"), PARTITIONS));
    let entries = reply::array(store.server.client().ok(&format!("XRANGE {log} - +")));
    for (_, users, adds) in entries.into_iter().filter_map(change_of) {
        for uid in users {
            let uid = uid.parse().expect("a number");
            let before = logged.insert(uid, adds).unwrap_or(false);
            assert_ne!(before, adds, "{uid}: every event is a change");
        }
    }
    for (uid, likes) in facts {
        let in_log = logged.get(uid).copied().unwrap_or(false);
        assert_eq!(in_log, *likes, "{uid} in the log");
    }
    let path = format!("/who/like/note/{NOTE}?limit=500");
    let users = api.ok(api.get(&path))["users"].clone();
    let mut users: Vec<u64> = users
        .as_array()
        .expect("users")
        .iter()
        .map(|uid| {
            uid.as_str()
                .and_then(|uid| uid.parse().ok())
                .expect("an ID")
        })
        .collect();
    users.sort_unstable();
    let expected = facts.iter().filter(|(_, likes)| **likes);
    assert_eq!(users, expected.map(|(uid, _)| *uid).collect::<Vec<_>>());
    assert_invariants(&store.server, config);
    assert_eq!(printed(&run(&store.server, config, &["dead", "list"])), "");
}

fn grouped_actions_are_exact(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    let mut facts = Facts::new();
    act_in_groups(&store, &api, &mut facts);
    assert_exact(&store, CONFIG, &api, &facts);
}

/// Sends an action, and leaves without waiting for the reply.
fn send_and_leave(api: &Api, action: &Json) {
    let body = action.to_string();
    let mut socket = TcpStream::connect(("127.0.0.1", api.port())).expect("countd listens");
    let request = format!(
        "POST /action/like HTTP/1.1\r\nhost: countd\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).expect("sent");
}

fn clients_that_leave_do_not_end_their_group(store: TestStore) {
    let countd = Countd::start(&store.server, CONFIG);
    let api = &countd.api();
    for round in 0..10 {
        // Redis does not reply while clients leave.
        store.server.signal("STOP");
        thread::scope(|scope| {
            for client in 0..10 {
                let uid = 100 * round + client;
                send_and_leave(api, &on_note(NOTE, 10_000 + uid));
                scope.spawn(move || api.act("like", on_note(NOTE, uid)));
                send_and_leave(api, &on_note(NOTE, 20_000 + uid));
            }
            pause();
            store.server.signal("CONT");
        });
    }
    let path = format!("/who/like/note/{NOTE}?limit=500");
    let liked = || {
        let users = api.ok(api.get(&path))["users"].clone();
        users.as_array().expect("users").len() as u64
    };
    wait_until("the actions of clients that have left end", || {
        let before = liked();
        wait_until_drained(&store.server, PARTITIONS);
        before == liked()
    });
    assert!(liked() >= 100, "those who waited");
    assert_eq!(api.counts(NOTE)["like"], liked());
    assert!(store.calls_of("rbm.mmark") > 0);
    assert_invariants(&store.server, CONFIG);
}

fn grouped_actions_are_exact_when_processes_and_redis_are_killed(mut store: TestStore) {
    assert_exact_under_kills(&mut store, CONFIG, 150);
}

/// Asserts that grouped actions are exact when processes and Redis are killed. Each client sends this number of actions meanwhile, and each of
/// them again until it is answered.
pub fn assert_exact_under_kills(store: &mut TestStore, config: &str, actions: u64) {
    set_schema(&store.server, config);
    let settings = |command| Settings { command, config };
    let mut processes =
        ["all", "consume"].map(|command| Countd::with(&store.server, &settings(command)));
    let api = processes[0].api();
    let mut facts = Facts::new();
    act_in_groups(store, &api, &mut facts);
    let act = |action: &Json| {
        let body = action.to_string();
        let mut again = false;
        loop {
            match api.try_post("/action/like", &body) {
                Ok((200, text)) => {
                    let outcome: Json = serde_json::from_str(&text).expect("JSON");
                    return with(outcome, json!({ "again": again }));
                }
                _ => pause(),
            }
            again = true;
        }
    };
    thread::scope(|scope| {
        let clients = scope.spawn(|| act_at_once(&mut facts, 1_000, actions, act));
        let mut random = Random(3);
        for kill in 0.. {
            if clients.is_finished() && kill >= 4 {
                break;
            }
            thread::sleep(Duration::from_millis(random.below(300)));
            match kill % 4 {
                0 => processes[1].kill(),
                1 => store.restart(),
                2 => processes[1].launch(),
                _ => {
                    processes[0].kill();
                    processes[0].launch();
                }
            }
        }
        clients.join().expect("the clients end");
    });
    assert_exact(store, config, &api, &facts);
}
