//! Erasing entities while `countd rebuild` has them in its shadows, and what rounds of reconciliation have noted of the target.

use super::entities::{self, ERASED, act};
use super::search::holders;
use super::{CONFIG, PARTITIONS, Setup, users};
use crate::replay::setup::{config, leftovers, rebuild, wait_until_archived};
use crate::support::printed;
use crate::support::stores::{TestStore, for_each_store};
use countint_tests::env::TempDir;
use countint_tests::reply;

for_each_store! {
    [module objects plain cluster cluster_objects]
    an_entity_that_is_erased_during_a_rebuild_leaves_nothing
    noted_differences_of_an_erased_target_are_deleted
}

/// An ID that has an object in every storage.
const NAMED: &str = "n-912345678901234567";

/// Runs a rebuild that stops when it has read the archive: the archived offset of a partition is missing. Then it is there again.
pub fn interrupt_rebuild(setup: &mut Setup, config: &str) {
    setup.countd.stop();
    let partition = TestStore::partition("note:1", PARTITIONS);
    let archived = match setup.store.is_cluster() {
        true => format!("x:cnt-update:{{{partition}}}:archive"),
        false => "x:cnt-update:archive".to_owned(),
    };
    let mut client = setup.store.server.client();
    let offset = reply::text(client.ok(&format!("HGET {archived} {partition}")));
    client.ok(&format!("HDEL {archived} {partition}"));
    let (output, _) = rebuild(&setup.store.server, config, &["--from", "earliest"]);
    assert!(!output.status.success(), "{output:?}");
    client.ok(&format!("HSET {archived} {partition} {offset}"));
    setup.countd.launch();
    setup.api = setup.countd.api();
}

/// The rebuild stops when it has read the archive, and continues after the erasure.
fn an_entity_that_is_erased_during_a_rebuild_leaves_nothing(store: TestStore) {
    let dir = TempDir::new();
    let config = config(&dir.path().join("archive"), "");
    let mut setup = Setup::new(store, &config);
    for note in ["1", ERASED, NAMED] {
        act(&setup, note);
    }
    setup.drain();
    wait_until_archived(&setup.store);
    let kept = setup.note("1");
    interrupt_rebuild(&mut setup, &config);
    let mut client = setup.store.server.client();
    for note in [ERASED, NAMED] {
        let found = holders(&mut client, note);
        let has_shadow = found.iter().any(|key| key.starts_with("shadow:"));
        assert!(has_shadow, "{note}: {found:#?}");
    }
    for note in [ERASED, NAMED] {
        setup.erase(&format!("/entity/note/{note}"));
    }
    setup.drain();
    let (output, report) = rebuild(&setup.store.server, &config, &["--from", "earliest"]);
    printed(&output);
    for metric in ["read", "comment"] {
        let differing = &report["metrics"][metric]["differing"];
        assert_eq!(*differing, 0, "{metric}: {report}");
    }
    for note in [ERASED, NAMED] {
        entities::assert_nothing_is_left(&setup, note);
    }
    assert_eq!(leftovers(&setup.store), [""; 0]);
    assert_eq!(setup.note("1"), kept);
}

/// Rounds note differences of counters of entities and of users. No round follows.
fn noted_differences_of_an_erased_target_are_deleted(store: TestStore) {
    let setup = Setup::new(store, &format!("{CONFIG}[reconcile]\nenabled = false\n"));
    let (note, user) = (ERASED, users::ERASED);
    act(&setup, note);
    users::act(&setup, user);
    setup.drain();
    let mut client = setup.store.server.client();
    let mut put = |key: &str, of: &str, field: &str, value: &str| {
        let key = setup.store.key(key, "", of);
        client.ok(&format!("HSET {key} {field} {value}"));
    };
    let of_user = format!("user:{user}");
    put(
        "countd:drift",
        &format!("note:{note}"),
        &format!("note:{note}:like"),
        "2/7",
    );
    put(
        "countd:drift",
        &of_user,
        &format!("user:{user}:follow"),
        "1/7",
    );
    put(
        "countd:drift",
        user,
        &format!("user:{user}:followers"),
        "1/7",
    );
    put("countd:users", user, &format!("{user}:followings"), "5/1");
    put("countd:users", user, "7:followings", "5/1");
    setup.erase(&format!("/entity/note/{note}"));
    setup.erase(&format!("/user/{user}"));
    setup.drain();
    for id in [note, user] {
        let found = holders(&mut setup.store.server.client(), id);
        assert!(found.is_empty(), "{id}: {found:#?}");
    }
    let others = setup.store.key("countd:users", "", user);
    let mut client = setup.store.server.client();
    client.expect(&format!("HGET {others} 7:followings"), "\"5/1\"");
}
