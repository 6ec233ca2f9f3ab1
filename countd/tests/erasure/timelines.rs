//! Erased users in timelines, also in timelines that are no longer updated.

use super::search::holders;
use super::users::ERASED;
use super::{CONFIG, PARTITIONS, Setup, config_with, on};
use crate::support::Countd;
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store, module};
use countint_tests::{reply, wait_until};
use serde_json::json;

for_each_store! {
    [module plain cluster]
    users_of_former_timelines_are_erased
}

/// The `latest` users of a metric with `order = "time"` stay when the order is changed back.
fn users_of_former_timelines_are_erased(store: TestStore) {
    let config = &config_with("sharded");
    let once = "nature = \"once\"\n";
    let ordered = config.replace(once, &format!("{once}order = \"time\"\n"));
    let mut setup = Setup::new(store, &ordered);
    let text = "user.with_other-characters";
    for uid in [ERASED, text, "42"] {
        setup.api.act("like", on("7", uid));
        setup.api.act("follow", json!({ "eid": uid, "uid": "9" }));
    }
    setup.drain();
    setup.countd.kill();
    setup.countd = Countd::start(&setup.store.server, config);
    setup.api = setup.countd.api();
    let mut client = setup.store.server.client();
    for uid in [ERASED, text] {
        let found = holders(&mut client, uid);
        let is_held = |key: &str| found.iter().any(|holder| holder.starts_with(key));
        assert!(is_held("wtl:like:note:7"), "{found:#?}");
        assert!(is_held(&format!("wtl:follow:user:{uid}")), "{found:#?}");
        setup.erase(&format!("/user/{uid}"));
        setup.drain();
        let found = holders(&mut client, uid);
        assert!(found.is_empty(), "{uid}: {found:#?}");
    }
    // The other user stays.
    let found = reply::array(client.ok("KEYS wtl:like:note:7*"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(setup.who("like", "note", "7"), ["42"]);
    assert_invariants(&setup.store.server, config);
}

/// A timeline that a pass finds after the first one may be that of a fact which the pass did not see.
#[test]
fn a_timeline_of_an_erased_user_needs_another_pass() {
    let setup = Setup::new(module(), CONFIG);
    setup.api.act("like", on("1", ERASED));
    setup.drain();
    let mut client = setup.store.server.client();
    let partition = TestStore::partition("note:1", PARTITIONS).to_string();
    let position = client.call(&["HGET", "x:cnt-update:pos", &partition]);
    let position = reply::text(position);
    client.call(&["HSET", "x:cnt-update:pos", &partition, "x"]);
    let job = setup.delete(&format!("/user/{ERASED}"));
    wait_until("the first pass waits", || {
        setup.api.get(&job).1["error"].as_str().is_some()
    });
    let timeline = format!("rtl:like:note:{ERASED}");
    client.call(&["CTAB.SET", &timeline, "999", "LEN", "1", "0", "5"]);
    client.call(&["HSET", "x:cnt-update:pos", &partition, &position]);
    super::wait_until_done(&setup.api, &job);
    let key = job.rsplit('/').next().expect("an ID");
    let key = reply::array(client.ok(&format!("KEYS countd:*{key}*")));
    let key = reply::text(key[0].clone());
    // The first, the one that finds the timeline, and one that finds nothing.
    let pass = reply::text(client.call(&["HGET", &key, "pass"]));
    assert_eq!(pass, "3");
    assert!(holders(&mut client, ERASED).is_empty());
}
