//! Timelines: what a user did, and the latest users of an entity.

use super::{CONFIG, FEW, Setup};
use crate::support::stores::{TestStore, for_each_store};
use serde_json::{Value as Json, json};

for_each_store! {
    [module plain cluster]
    likes_are_listed_newest_first
    older_likes_are_listed_by_id
    pages_follow_each_other
    ids_of_every_form_are_listed
    followings_and_followers_are_listed
    the_latest_users_of_an_entity_come_first
}

fn likes_are_listed_newest_first(store: TestStore) {
    let setup = Setup::new(store, CONFIG);
    for note in [5, 3, 9, 7] {
        setup.act("like", note, 42);
    }
    let path = "/user/42/like/note";
    let first = setup.timeline(path, 10);
    assert_eq!(first, (["7", "9", "3", "5"].map(str::to_owned).to_vec(), 4));
    setup.act("unlike", 9, 42);
    setup.act("unlike", 5, 42);
    setup.act("like", 5, 42);
    assert_eq!(setup.timeline(path, 10).0, ["5", "7", "3"]);
    assert_eq!(setup.timeline("/user/43/like/note", 10).0, [""; 0]);
    assert_eq!(setup.timeline("/user/42/fav/note", 10).0, [""; 0]);
}

fn older_likes_are_listed_by_id(store: TestStore) {
    let setup = Setup::new(store, FEW);
    let path = "/user/42/like/note";
    for note in [50, 30, 90, 70, 20, 60, 10, 40] {
        setup.act("like", note, 42);
        setup.drain();
    }
    for limit in [1, 2, 3, 100] {
        let (ids, times) = setup.timeline(path, limit);
        assert_eq!(
            (&ids[..3], times),
            (&["40", "10", "60"].map(str::to_owned)[..], 3)
        );
        let mut others = ids[3..].to_vec();
        if setup.store.has_module {
            assert_eq!(others, ["90", "70", "50", "30", "20"]);
        }
        others.sort();
        assert_eq!(others, ["20", "30", "50", "70", "90"]);
    }
    // One of the older facts is removed, another one becomes the newest.
    setup.act("unlike", 70, 42);
    setup.act("unlike", 90, 42);
    setup.act("like", 90, 42);
    let (mut ids, _) = setup.timeline(path, 100);
    assert_eq!(ids[0], "90");
    ids.sort();
    assert_eq!(ids, ["10", "20", "30", "40", "50", "60", "90"]);
}

fn pages_follow_each_other(store: TestStore) {
    let setup = Setup::new(store, CONFIG);
    for note in 1..=9 {
        setup.act("like", note, 42);
    }
    setup.drain();
    let api = &setup.api;
    let first = api.ok(api.get("/user/42/like/note?limit=4"));
    // The last fact of the page is removed, and another one is added.
    setup.act("unlike", 6, 42);
    setup.act("like", 10, 42);
    setup.drain();
    let cursor = first["cursor"].as_str().expect("a cursor");
    let next = api.ok(api.get(&format!("/user/42/like/note?limit=9&cursor={cursor}")));
    let ids = |page: &Json| {
        let items = page["items"].as_array().expect("items").iter();
        items
            .map(|item| item["eid"].as_str().expect("an ID").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&first), ["9", "8", "7", "6"]);
    assert_eq!(ids(&next), ["5", "4", "3", "2", "1"]);
    for (path, status, code) in [
        ("/user/42/like/note?limit=0", 400, "malformed"),
        ("/user/42/like/note?limit=501", 400, "malformed"),
        ("/user/42/like/note?cursor=x", 400, "malformed"),
        ("/user/42/like/note?cursor=i5.", 400, "malformed"),
        ("/user/42/like/note?cursor=sx", 400, "malformed"),
        ("/who/like/note/1?cursor=t5.7", 400, "malformed"),
        ("/user/42/like/9", 400, "malformed"),
        ("/user/42/like/cat", 404, "unknown_type"),
        ("/user/42/nope/note", 404, "unknown_metric"),
        ("/user/42/read/note", 422, "unprocessable"),
    ] {
        let (found, problem) = api.get(path);
        assert_eq!(
            (found, problem["code"].as_str()),
            (status, Some(code)),
            "{path}"
        );
    }
}

fn ids_of_every_form_are_listed(store: TestStore) {
    let setup = Setup::new(store, FEW);
    let user = "b7c0-uuid.x";
    let notes = [
        "7",
        "a-7",
        "18446744073709551615",
        "007",
        "z",
        "18446744073709551616",
    ];
    for note in notes {
        setup.act("fav", note, user);
    }
    let expected: Vec<&str> = notes.into_iter().rev().collect();
    for limit in [1, 4, 100] {
        let (ids, times) = setup.timeline(&format!("/user/{user}/fav/note"), limit);
        assert_eq!(
            (ids, times),
            (expected.iter().map(|id| id.to_string()).collect(), 6)
        );
    }
    for number in 0..20 {
        setup.act("fav", number + 100, user);
        setup.act("fav", format!("x{number}"), user);
        setup.drain();
    }
    for limit in [3, 100] {
        let (mut ids, times) = setup.timeline(&format!("/user/{user}/fav/note"), limit);
        assert!((8..=18).contains(&times), "{times}");
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!((count, ids.len()), (46, 46));
    }
}

fn followings_and_followers_are_listed(store: TestStore) {
    let setup = Setup::new(store, CONFIG);
    for (uid, target) in [(1, 2), (1, 9), (1, 5), (3, 2), (4, 2)] {
        setup.act("follow", target, uid);
    }
    setup.act("unfollow", 2, 3);
    assert_eq!(setup.users("/user/1/followings", 2), ["5", "9", "2"]);
    assert_eq!(setup.users("/user/3/followings", 2), [""; 0]);
    let mut followers = setup.users("/user/2/followers", 1);
    followers.sort();
    assert_eq!(followers, ["1", "4"]);
    let who = setup.users("/who/follow/user/2", 100);
    assert_eq!(setup.users("/user/2/followers", 100), who);
    let counts = setup.api.user(1);
    assert_eq!(
        (&counts["followings"], &counts["followers"]),
        (&json!(3), &json!(0))
    );
}

fn the_latest_users_of_an_entity_come_first(store: TestStore) {
    let setup = Setup::new(store, FEW);
    for uid in [50, 30, 90, 70, 20, 60] {
        setup.act("like", 1, uid);
        setup.drain();
    }
    for limit in [1, 2, 3, 100] {
        let mut users = setup.users("/who/like/note/1", limit);
        assert_eq!(users[..3], ["60", "20", "70"]);
        users.sort();
        assert_eq!(users, ["20", "30", "50", "60", "70", "90"]);
    }
    setup.act("unlike", 1, 20);
    setup.act("unlike", 1, 30);
    setup.act("like", 1, 30);
    let mut users = setup.users("/who/like/note/1", 2);
    assert_eq!(users[0], "30");
    users.sort();
    assert_eq!(users, ["30", "50", "60", "70", "90"]);
    // Users of any form.
    for number in 0..12 {
        setup.act("fav", 1, format!("u{number}"));
        setup.act("fav", 1, number);
        setup.drain();
    }
    let users = setup.users("/who/fav/note/1", 3);
    assert_eq!(users[..4], ["11", "u11", "10", "u10"]);
    let mut sorted = users.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!((users.len(), sorted.len()), (24, 24));
}
