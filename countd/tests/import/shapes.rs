//! Live sources: the forms in which products keep facts and counts.

use super::setup::{CONFIG, PARTITIONS, imported, outcome, start};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, run, wait_until_drained};
use countint_tests::Server;
use std::collections::BTreeSet;

fn counter(api: &Api, eid: &str, metric: &str) -> u64 {
    let counter = api.ok(api.get(&format!("/counter/note/{eid}")));
    counter["counts"][metric].as_u64().expect("a count")
}

fn users(api: &Api, metric: &str, eid: &str) -> BTreeSet<String> {
    let page = api.ok(api.get(&format!("/who/{metric}/note/{eid}?limit=500")));
    let users = page["users"].as_array().expect("users").iter();
    users
        .map(|user| user.as_str().expect("an ID").to_owned())
        .collect()
}

fn url(server: &Server) -> String {
    format!("redis://127.0.0.1:{}/", server.port())
}

/// Runs an import from a source.
#[track_caller]
fn imported_from(store: &TestStore, source: &Server, words: &str) -> String {
    imported(
        &store.server,
        &format!("{words} --source {}", url(source)),
        "",
    )
}

fn sets_of_users_become_facts(store: TestStore) {
    let source = Server::builder().no_module().start();
    let countd = start(&store.server);
    let (api, mut client) = (countd.api(), source.client());
    let mut expected = BTreeSet::new();
    // More than a page, and other keys.
    for uid in 1..=1300 {
        client.ok(&format!("SADD praised_by:1 {uid}"));
        expected.insert(uid.to_string());
    }
    client.ok("SADD praised_by:n-2 7 8");
    client.ok("SADD praised:3 7");
    let words =
        "facts --job praise --from sets --pattern praised_by:{id} --etype note --metric sharded";
    let printed = imported_from(&store, &source, words);
    assert!(
        printed.starts_with("imported: 1302 records (1302 changed"),
        "{printed}"
    );
    assert_eq!(counter(&api, "1", "sharded"), 1300);
    assert_eq!(
        users(&api, "sharded", "n-2"),
        ["7", "8"].map(str::to_owned).into()
    );
    let again = imported_from(&store, &source, words);
    assert!(again.contains("verified: 1302 records"), "{again}");
    // A later fact of the source is a difference.
    client.ok("SADD praised_by:n-2 9");
    let words = format!("{words} --source {}", url(&source));
    let (status, printed, _) = outcome(&store.server, &words, "");
    let expected = "key praised_by:n-2: no sharded of note n-2 by 9\nimported: 1302 records";
    assert_eq!(status, 1, "{printed}");
    assert!(printed.starts_with(expected), "{printed}");
}

fn bitmaps_become_facts(store: TestStore) {
    let source = Server::builder().no_module().start();
    let countd = start(&store.server);
    let (api, mut client) = (countd.api(), source.client());
    let uids = [0, 1, 7, 8, 63, 65_535, 524_287, 524_288, 600_001];
    for uid in uids {
        client.ok(&format!("SETBIT bm:like:5 {uid} 1"));
    }
    client.ok("SETBIT bm:like:5 9 0");
    for metric in ["rbm", "bitmap"] {
        let words = format!(
            "facts --job {metric} --from bitmap --pattern bm:like:{{id}} --etype note --metric {metric}"
        );
        imported_from(&store, &source, &words);
        let expected: BTreeSet<String> = uids.iter().map(u32::to_string).collect();
        assert_eq!(users(&api, metric, "5"), expected, "{metric}");
    }
    wait_until_drained(&store.server, PARTITIONS);
}

fn hashes_per_entity_become_counts(store: TestStore) {
    let source = Server::builder().no_module().start();
    let countd = start(&store.server);
    let (api, mut client) = (countd.api(), source.client());
    for eid in 1..=700 {
        client.ok(&format!("HSET post:{eid} views {eid} comments 2 likes 9"));
    }
    client.ok("HSET post:u-1 views 5");
    let words = "counts --job h --from hash-per-entity --pattern post:{id} --etype note --map views=read,comments=comment";
    let with_source = format!("{words} --source {}", url(&source));
    let (status, _, errors) = outcome(&store.server, &with_source, "");
    assert_eq!(status, 1);
    assert!(
        errors.contains("field likes is neither mapped nor ignored"),
        "{errors}"
    );
    imported(&store.server, "forget h", "");
    let words = format!("{words} --ignore likes");
    let printed = imported_from(&store, &source, &words);
    assert!(
        printed.starts_with("imported: 701 records (701 changed"),
        "{printed}"
    );
    for (eid, read, comment) in [("1", 1, 2), ("700", 700, 2), ("u-1", 5, 0)] {
        assert_eq!(counter(&api, eid, "read"), read);
        assert_eq!(counter(&api, eid, "comment"), comment);
    }
    imported_from(&store, &source, &words);
    assert_eq!(counter(&api, "700", "read"), 700);
    // The ids of the import are deleted.
    let mut client = store.server.client();
    client.expect("KEYS countd:import:h:[in]*", "(empty array)");
}

fn hashes_per_counter_become_counts(store: TestStore) {
    let source = Server::builder().no_module().start();
    let countd = start(&store.server);
    let (api, mut client) = (countd.api(), source.client());
    for eid in 1..=1200 {
        client.ok(&format!("HSET read_count {eid} {}", 2 * eid));
    }
    client.ok("HSET comment_count 1 3 u-1 4");
    let words = "counts --job h --from hash-per-counter --etype note --map read_count=view,comment_count=comment";
    let printed = imported_from(&store, &source, words);
    assert!(
        printed.starts_with("imported: 1202 records (1202 changed"),
        "{printed}"
    );
    assert_eq!(counter(&api, "1200", "read"), 2400);
    assert_eq!(counter(&api, "1", "comment"), 3);
    assert_eq!(counter(&api, "u-1", "comment"), 4);
    client.ok("HINCRBY read_count 7 1");
    let words = format!("{words} --source {}", url(&source));
    let (status, printed, _) = outcome(&store.server, &words, "");
    let expected =
        "key read_count: read of note 7: the source has 15, countd 14\nimported: 1202 records";
    assert_eq!(status, 1, "{printed}");
    assert!(printed.starts_with(expected), "{printed}");
}

fn packed_strings_and_their_increments_become_counts(store: TestStore) {
    // From the same server, where its keys are in all slots.
    let countd = start(&store.server);
    let (api, mut client) = (countd.api(), store.server.client());
    for eid in 1..=600 {
        client.ok(&format!(
            "BITFIELD sds:{eid} SET u32 #0 {eid} SET u32 #2 4294967295"
        ));
    }
    client.ok("HSET agg:5 0 10 comment -1");
    client.ok("HSET agg:601 2 8");
    let words = "counts --job p --from packed --pattern sds:{id} --agg agg:{id} --fields read,-,comment --etype note";
    let printed = imported_from(&store, &store.server, words);
    assert!(
        printed.contains("verified: 602 records, no differences"),
        "{printed}"
    );
    for (eid, read, comment) in [
        ("1", 1, u64::from(u32::MAX)),
        ("5", 15, u64::from(u32::MAX) - 1),
        ("601", 0, 8),
    ] {
        assert_eq!(
            (counter(&api, eid, "read"), counter(&api, eid, "comment")),
            (read, comment),
            "{eid}"
        );
    }
    client.ok("SET sds:9 12345");
    let (status, _, errors) = outcome(&store.server, &words.replace("--job p", "--job q"), "");
    assert_eq!(status, 1);
    assert!(
        errors.contains("key sds:9: the String is not 0 to 3 counters"),
        "{errors}"
    );
}

fn a_key_of_another_type_or_name_is_reported(store: TestStore) {
    let source = Server::builder().no_module().start();
    super::setup::set_schema(&store.server);
    let mut client = source.client();
    for line in ["SET p:1 x", "SADD p:2 7", "SADD p:2:old 7", "SADD p:3 a:b"] {
        client.ok(line);
    }
    let words =
        "facts --job s --from sets --pattern p:{id} --etype note --metric sharded --skip-invalid 3";
    let words = format!("{words} --source {}", url(&source));
    let (status, printed, errors) = outcome(&store.server, &words, "");
    assert_eq!(status, 0, "{errors}");
    assert!(
        printed.starts_with("imported: 1 records (1 changed something now), skipped: 3"),
        "{printed}"
    );
    for problem in [
        "key p:1: \"WRONGTYPE\"",
        "key p:2:old: 2:old: an ID has",
        "key p:3: a:b: an ID has",
    ] {
        assert!(errors.contains(problem), "{problem}: {errors}");
    }
}

for_each_store! {
    [module objects plain cluster]
    sets_of_users_become_facts
    bitmaps_become_facts
    hashes_per_entity_become_counts
    hashes_per_counter_become_counts
    packed_strings_and_their_increments_become_counts
    a_key_of_another_type_or_name_is_reported
}

#[test]
fn a_source_that_cannot_be_read_is_reported() {
    let server = Server::start();
    super::setup::set_schema(&server);
    let mut client = server.client();
    client.ok("SADD p:1 7");
    client.ok("ACL SETUSER reader on >secret ~p:* +info +scan");
    let words =
        "import facts --job s --from sets --pattern p:{id} --etype note --metric rbm --source";
    let run_with = |url: String| {
        let mut words: Vec<&str> = words.split(' ').collect();
        words.push(&url);
        let output = run(&server, CONFIG, &words);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let errors = run_with(format!(
        "redis://reader:secret@127.0.0.1:{}/",
        server.port()
    ));
    assert!(
        errors.contains("its user needs INFO, SCAN, SSCAN"),
        "{errors}"
    );
    let errors = run_with("redis://127.0.0.1:1/".to_owned());
    assert!(errors.contains("the source: "), "{errors}");
}
