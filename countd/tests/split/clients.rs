//! Clients that act on note 7 and know what each of their users must have.

use crate::support::workload::{Random, run_while};
use crate::support::{Api, on_note};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The number of users of each client.
const USERS: u64 = 40;
/// How long a client repeats an action that is refused.
const PATIENCE: Duration = Duration::from_secs(120);

/// The pause between the actions of a client: a merge takes long, and most of it waits.
const PAUSE: Duration = Duration::from_millis(10);

/// What clients have done.
#[derive(Default)]
pub struct Done {
    /// The users who like the note.
    pub likes: BTreeSet<u64>,
    /// The number of actions.
    pub actions: u64,
}

/// What clients do while `work` runs. Each acts on users of its own, through any of these processes.
pub fn act_while(apis: &[Api], clients: u64, work: impl FnOnce()) -> Done {
    act_slowly_while(apis, (clients, PAUSE), work)
}

/// [`act_while`], with another pause between the actions of a client.
pub fn act_slowly_while(
    apis: &[Api],
    (clients, pause): (u64, Duration),
    work: impl FnOnce(),
) -> Done {
    let client = |client, stop: &AtomicBool| act(apis, client, pause, stop);
    let (_, done) = run_while(clients, client, work);
    let mut all = Done::default();
    for done in done {
        all.likes.extend(done.likes);
        all.actions += done.actions;
    }
    all
}

/// Acts until `stop` turns true.
fn act(apis: &[Api], client: u64, pause: Duration, stop: &AtomicBool) -> Done {
    let mut random = Random(client + 1);
    let mut done = Done::default();
    while !stop.load(Ordering::SeqCst) {
        let user = client * USERS + random.below(USERS) + 1;
        let api = &apis[random.below(apis.len() as u64) as usize];
        let has = done.likes.contains(&user);
        match random.below(8) {
            0 => assert_status(api, user, has),
            1 => batch(api, user, &mut done),
            choice => {
                // Repeats, too.
                let adds = if choice == 2 { has } else { !has };
                let metric = if adds { "like" } else { "unlike" };
                let (outcome, attempts) = repeated(|| {
                    api.try_post(&format!("/action/{metric}"), &on_note(7, user).to_string())
                });
                // An attempt whose response was lost may have been executed.
                if attempts == 1 {
                    assert_eq!(outcome["changed"], adds != has, "{user} {metric} {outcome}");
                }
                apply(&mut done.likes, user, adds);
            }
        }
        done.actions += 1;
        thread::sleep(pause);
    }
    done
}

fn apply(likes: &mut BTreeSet<u64>, user: u64, adds: bool) {
    match adds {
        true => likes.insert(user),
        false => likes.remove(&user),
    };
}

/// Several actions with one request: those of a user in order.
fn batch(api: &Api, user: u64, done: &mut Done) {
    let line = |op: &str, eid: u64| {
        let mut action = on_note(eid, user);
        action["metric"] = json!("like");
        action["op"] = json!(op);
        action.to_string()
    };
    let lines = [
        line("add", 7),
        line("remove", 7),
        line("add", 8),
        line("add", 7),
        line("remove", 8),
    ]
    .join("\n");
    let begun = Instant::now();
    loop {
        let response = api.try_post("/actions", &lines);
        let is_done = response.as_ref().is_ok_and(|(status, text)| {
            let outcomes: Vec<Json> = text
                .lines()
                .map(|line| serde_json::from_str(line).expect("JSON"))
                .collect();
            *status == 200 && outcomes.iter().all(|outcome| outcome["error"].is_null())
        });
        if is_done {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{response:?}");
        thread::sleep(Duration::from_millis(20));
    }
    done.likes.insert(user);
}

/// Repeats a request until it succeeds. Returns the response and the number of attempts that may have been executed.
pub fn repeated(send: impl Fn() -> Result<(u16, String), String>) -> (Json, u32) {
    let (begun, mut attempts) = (Instant::now(), 0);
    loop {
        let response = send();
        attempts += 1;
        match &response {
            Ok((200, text)) => return (serde_json::from_str(text).expect("JSON"), attempts),
            // It was not executed.
            Ok((503, text)) if text.contains("\"merging\"") => attempts -= 1,
            Ok((status, text)) => assert_eq!(*status, 503, "{text}"),
            Err(_) => {}
        }
        assert!(begun.elapsed() < PATIENCE, "{response:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Asserts that a user likes the note, or does not.
fn assert_status(api: &Api, user: u64, expected: bool) {
    let items = json!([{ "etype": "note", "eid": 7 }]);
    let request = json!({ "uid": user, "items": items, "metrics": ["like"] });
    let (response, _) = repeated(|| api.try_post("/status/batch", &request.to_string()));
    assert_eq!(
        response["items"][0]["status"]["like"], expected,
        "{user} {response}"
    );
}
