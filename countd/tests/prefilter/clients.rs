//! Clients that act through one process and read the statuses from another one.

use crate::split::repeated;
use crate::support::workload::run_while;
use crate::support::{Api, on_note};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// The number of clients.
const CLIENTS: u64 = 4;
/// The number of users of each client who act at least.
const USERS: u64 = 50;
/// The number of notes that are liked.
const NOTES: u64 = 16;

/// A note and a user who likes it.
pub type Like = (u64, u64);

/// Whether a user likes a note. The process may refuse to answer for a moment.
pub fn has((eid, uid): Like, api: &Api) -> bool {
    let path = format!("/status/note/{eid}?uid={uid}&metrics=like");
    let (status, _) = repeated(|| api.try_get(&path));
    status["status"]["like"].as_bool().expect("a status")
}

/// Acts, also repeatedly while requests are refused.
pub fn act(metric: &str, (eid, uid): Like, api: &Api) {
    let (path, action) = (format!("/action/{metric}"), on_note(eid, uid).to_string());
    repeated(|| api.try_post(&path, &action));
}

/// Likes through `other` while `meanwhile` runs, and asserts that `api` reports each like as soon as it is acknowledged. Returns all likes.
pub fn like_while(api: &Api, other: &Api, meanwhile: impl FnOnce()) -> BTreeSet<Like> {
    let client = |client, stop: &_| like_until(api, other, client, stop);
    let (_, likes) = run_while(CLIENTS, client, meanwhile);
    likes.into_iter().flatten().collect()
}

fn like_until(api: &Api, other: &Api, client: u64, stop: &AtomicBool) -> Vec<Like> {
    let mut likes = Vec::new();
    for number in 0.. {
        if number >= USERS && stop.load(Ordering::SeqCst) {
            break;
        }
        let like = (number % NOTES, 1_000_000 * (client + 1) + number);
        assert!(!has(like, api), "{like:?}, before");
        act("like", like, other);
        assert!(has(like, api), "{like:?}");
        if number % 5 == 0 {
            act("unlike", like, other);
            assert!(!has(like, api), "{like:?}, afterwards");
            continue;
        }
        likes.push(like);
    }
    likes
}
