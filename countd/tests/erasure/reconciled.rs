//! What reconciliation has kept of an erased user: corrections in the audit, sums of a sweep over authors, and reports.

use super::search::holders;
use super::users::{ERASED, act, others};
use super::{CONFIG, PARTITIONS, Setup, config_with};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{printed, run};
use crate::user_truth::{audit, field, forge, slots};
use countint_tests::{Client, Value};

for_each_store! {
    [module plain cluster]
    corrections_do_not_name_an_erased_user
    sums_and_reports_of_an_erased_user_are_deleted
}

/// Without rounds. The command corrects every difference.
pub fn without_rounds(config: &str) -> String {
    format!("{config}[reconcile]\nenabled = false\nmin_difference = 0\nmin_percent = 0.0\n")
}

/// A sweep over authors begins to add up credits.
pub fn begin_sweep(store: &TestStore, client: &mut Client, sweep: u64) {
    for slot in slots(store) {
        client.ok(&format!("HSET countd:sums{slot} sweep {sweep} stage 2"));
    }
}

/// Adds a fact on the user to the timeline of another user, or of the user to the own timeline.
pub fn forge_fact(store: &TestStore, client: &mut Client, uid: &str, of: &str, eid: &str) {
    let form = if store.has_module { "" } else { ":s" };
    let key = store.key(&format!("rtl:{of}:{uid}{form}"), "", uid);
    client.ok(&match store.has_module {
        true => format!("CTAB.SET {key} {eid} LEN 1 0 5"),
        false => format!("ZADD {key} 5 {eid}"),
    });
}

fn corrections_do_not_name_an_erased_user(store: TestStore) {
    let config = without_rounds(CONFIG);
    let setup = Setup::new(store, &config);
    act(&setup, ERASED);
    others(&setup);
    setup.drain();
    let (store, mut client) = (&setup.store, setup.store.server.client());
    for (idx, count) in [(0, 70), (1, 71), (3, 72)] {
        forge(store, ERASED, idx, count);
    }
    forge_fact(store, &mut client, ERASED, "like:note", "77");
    // A fact on the user in the timeline of a user who does not follow them.
    forge_fact(store, &mut client, "101", "follow:user", ERASED);
    let reconcile = |arguments: &[&str]| {
        let arguments = [&["reconcile"], arguments].concat();
        printed(&run(&store.server, &config, &arguments));
    };
    reconcile(&["--all"]);
    setup.drain();
    let entries = audit(store, &mut client);
    for (metric, source) in [
        ("followings", "user"),
        ("followers", "user"),
        ("likesReceived", "credits"),
        ("like", "reverse"),
    ] {
        let is_it = |entry: &&Vec<String>| {
            field(entry, "metric") == metric && field(entry, "source") == source
        };
        let mut of_user = entries.iter().filter(|entry| field(entry, "eid") == ERASED);
        assert!(of_user.any(|entry| is_it(&entry)), "{metric}: {entries:?}");
    }
    let mut rows = entries.iter().filter(|entry| field(entry, "row") == ERASED);
    assert!(
        rows.any(|entry| field(entry, "eid") == "101"),
        "{entries:?}"
    );
    setup.erase(&format!("/user/{ERASED}"));
    setup.drain();
    let found = holders(&mut client, ERASED);
    assert!(found.is_empty(), "{found:#?}");
    assert_eq!(audit(store, &mut client).len(), entries.len());
}

/// A sweep that was interrupted, and the report of a comparison that was killed.
fn sums_and_reports_of_an_erased_user_are_deleted(store: TestStore) {
    let setup = Setup::new(store, &without_rounds(&config_with("sharded")));
    let (store, mut client) = (&setup.store, setup.store.server.client());
    begin_sweep(store, &mut client, 1);
    act(&setup, ERASED);
    act(&setup, "user.7");
    setup.drain();
    let of_user = TestStore::partition(ERASED, PARTITIONS);
    let report = match store.is_cluster() {
        true => format!("countd:report:1-a:{{{of_user}}}"),
        false => format!("countd:report:1-a:{of_user}"),
    };
    client.ok(&format!(
        "HSET {report} user:{ERASED}:followers 1 user:7:followers 1"
    ));
    for uid in [ERASED, "user.7"] {
        let found = holders(&mut client, uid);
        let has_sum = found.iter().any(|key| key.starts_with("usum"));
        assert!(has_sum, "{uid}: {found:#?}");
        setup.erase(&format!("/user/{uid}"));
        setup.drain();
        let found = holders(&mut client, uid);
        assert!(found.is_empty(), "{uid}: {found:#?}");
    }
    client.expect(&format!("HGET {report} user:7:followers"), "\"1\"");
    for slot in slots(store) {
        let damaged = client.ok(&format!("HEXISTS countd:sums{slot} damaged"));
        assert_eq!(damaged, Value::Int(0), "the sums of users were 0");
    }
    // A sum that is not 0: the sweep cannot compare its sums with the counters.
    let hash = store.key("usumh:", "", "user.8");
    let hash = match store.is_cluster() {
        true => hash.replace("usumh::", "usumh:"),
        false => format!("{hash}{}", TestStore::partition("user.8", PARTITIONS)),
    };
    client.ok(&format!("HSET {hash} user.8:3 5"));
    setup.erase("/user/user.8");
    let found = holders(&mut client, "user.8");
    assert!(found.is_empty(), "{found:#?}");
    let state = store.key("countd:sums", "", "user.8");
    client.expect(&format!("HGET {state} damaged"), "\"1\"");
}
