//! Erasing users of an entity that is split: no key of the server has their IDs afterwards, and everything else is exact.

use super::{CONFIG, assert_likes, liked_and_split, merge};
use crate::erasure::search::holders;
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::workload::Random;
use crate::support::{Api, Countd, on_note, pause, wait_until_drained};
use countint_tests::env::deadline;
use countint_tests::wait_until;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

for_each_store! {
    [module objects plain cluster cluster_objects]
    a_user_of_a_split_entity_is_erased
    users_are_erased_when_processes_are_killed
    a_merge_forgets_a_user_who_leaves_the_base
}

/// An ID that is not a part of a number of something else.
const fn uid(number: u64) -> u64 {
    912_345_678_901_234_000 + number
}

/// Liked before the split, and took it back while the entity was split.
const TAKEN_BACK: u64 = uid(1);
/// Did the same, and liked again.
const LIKED_AGAIN: u64 = uid(2);
/// Liked before the split.
const AT_BASE: u64 = uid(3);
/// Liked while the entity was split.
const AT_SHARD: u64 = uid(4);
/// The number of kills.
const KILLS: u64 = 6;

struct Setup {
    store: TestStore,
    countd: Countd,
    api: Api,
}

impl Setup {
    /// Likes of these users, and of users 1 to 10 at the base and 11 to 20 at shards.
    fn new(store: TestStore) -> Setup {
        let at_base = (1..=10).chain([TAKEN_BACK, LIKED_AGAIN, AT_BASE]);
        let at_shards = (11..=20).chain([AT_SHARD]);
        let (countd, api) = liked_and_split(&store.server, at_base, at_shards);
        for user in [TAKEN_BACK, LIKED_AGAIN] {
            assert_eq!(api.act("unlike", on_note(7, user))["changed"], true);
        }
        assert_eq!(api.act("like", on_note(7, LIKED_AGAIN))["changed"], true);
        let setup = Setup { store, countd, api };
        setup.drain();
        for user in [TAKEN_BACK, LIKED_AGAIN] {
            assert!(setup.is_former(user), "{user}");
        }
        setup
    }

    fn drain(&self) {
        wait_until_drained(&self.store.server, 16);
    }

    /// The keys that have the ID of a user.
    fn holders(&self, user: u64) -> Vec<String> {
        holders(&mut self.store.server.client(), &user.to_string())
    }

    /// Whether the base lists a user as one who took a fact back.
    fn is_former(&self, user: u64) -> bool {
        let found = self.holders(user);
        found.iter().any(|key| key.contains("~former"))
    }

    /// Starts to erase a user. Returns the ID of the job.
    fn start(&self, user: u64) -> String {
        let (status, job) = self.api.delete(&format!("/user/{user}"));
        assert_eq!(status, 202, "{job}");
        job["id"].as_str().expect("an ID").to_owned()
    }

    /// Waits until jobs have ended.
    fn wait(&self, jobs: &[String]) {
        let limit = Instant::now() + deadline(180);
        for job in jobs {
            let mut last = Json::Null;
            while last["state"] != "done" {
                assert!(Instant::now() < limit, "the job does not end: {last}");
                if let Ok((200, text)) = self.api.try_get(&format!("/jobs/{job}")) {
                    last = serde_json::from_str(&text).expect("JSON");
                }
                pause();
            }
            assert_eq!(last["damaged"], 0, "{last}");
        }
        self.drain();
    }

    #[track_caller]
    fn assert_erased(&self, user: u64) {
        let found = self.holders(user);
        assert!(found.is_empty(), "{user}: {found:#?}");
    }

    /// Whether a user lists the note.
    fn lists(&self, user: u64) -> bool {
        let timeline = self
            .api
            .ok(self.api.get(&format!("/user/{user}/like/note")));
        let notes = timeline["items"].as_array().expect("items");
        notes.iter().any(|note| note["eid"] == "7")
    }

    /// Asserts the likes before and after the merge.
    fn assert_merged(&self, likes: &BTreeSet<u64>) {
        assert_likes(&self.api, likes);
        merge(&self.store.server, CONFIG);
        self.drain();
        assert_likes(&self.api, likes);
        for user in [TAKEN_BACK, LIKED_AGAIN, AT_BASE, AT_SHARD] {
            assert_eq!(self.lists(user), likes.contains(&user), "{user}");
        }
        assert_invariants(&self.store.server, CONFIG);
    }
}

fn a_user_of_a_split_entity_is_erased(store: TestStore) {
    let setup = Setup::new(store);
    let erased = [TAKEN_BACK, LIKED_AGAIN, AT_BASE, AT_SHARD];
    setup.wait(&erased.map(|user| setup.start(user)));
    for user in erased {
        setup.assert_erased(user);
    }
    let mut likes: BTreeSet<u64> = (1..=20).collect();
    assert_likes(&setup.api, &likes);
    // A new life: their home is a shard. Each action changes the fact once.
    for user in [TAKEN_BACK, LIKED_AGAIN] {
        for (action, changed, lists) in [
            ("like", true, true),
            ("like", false, true),
            ("unlike", true, false),
            ("unlike", false, false),
            ("like", true, true),
        ] {
            assert_eq!(setup.api.act(action, on_note(7, user))["changed"], changed);
            let count = likes.len() + usize::from(lists);
            assert_eq!(setup.api.counts(7)["like"], count, "{action}");
        }
        likes.insert(user);
        assert!(!setup.is_former(user), "{user}");
    }
    setup.drain();
    setup.assert_merged(&likes);
}

fn users_are_erased_when_processes_are_killed(store: TestStore) {
    let mut setup = Setup::new(store);
    let erased = [TAKEN_BACK, LIKED_AGAIN];
    let jobs = erased.map(|user| setup.start(user));
    let mut random = Random(6);
    for kill in 0..KILLS {
        thread::sleep(Duration::from_millis(random.below(3_000)));
        if kill % 3 == 2 {
            setup.store.restart();
        } else {
            setup.countd.kill();
            setup.countd.launch();
        }
    }
    setup.wait(&jobs);
    for user in erased {
        setup.assert_erased(user);
    }
    let likes = (1..=20).chain([AT_BASE, AT_SHARD]).collect();
    setup.assert_merged(&likes);
}

fn a_merge_forgets_a_user_who_leaves_the_base(store: TestStore) {
    let setup = Setup::new(store);
    let job = setup.start(TAKEN_BACK);
    wait_until("the user leaves the base", || {
        let found = setup.holders(TAKEN_BACK);
        found.iter().any(|key| key.starts_with("split:"))
    });
    // Until the user is forgotten, they cannot act there.
    let (status, refused) = setup.api.post("/action/like", &on_note(7, TAKEN_BACK));
    assert_eq!((status, &refused["code"]), (503, &json!("merging")));
    merge(&setup.store.server, CONFIG);
    setup.wait(&[job]);
    setup.assert_erased(TAKEN_BACK);
    let likes = (1..=20).chain([LIKED_AGAIN, AT_BASE, AT_SHARD]).collect();
    setup.assert_merged(&likes);
}
