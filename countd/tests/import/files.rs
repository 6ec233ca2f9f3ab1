//! Files of facts and counts, in each format and each mode.

use super::setup::{Files, PARTITIONS, STORES, imported, outcome, start};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Api, wait_until_drained};
use countint_tests::reply;
use serde_json::{Value as Json, json};

/// 2020-09-13, in milliseconds.
const LONG_AGO: u64 = 1_600_000_000_000;

fn has_fact(api: &Api, metric: &str, eid: &str, uid: u64) -> bool {
    let path = format!("/status/note/{eid}?uid={uid}&metrics={metric}");
    api.ok(api.get(&path))["status"][metric] == true
}

fn counts(api: &Api, eid: &str) -> Json {
    api.ok(api.get(&format!("/counter/note/{eid}")))["counts"].clone()
}

/// 40 facts of each store: notes 1 to 4 and `u-1`, 8 users each. Every fact is there twice.
fn facts(line: impl Fn(&str, &str, u64) -> String) -> String {
    let mut lines = Vec::new();
    for metric in STORES {
        for eid in ["1", "2", "3", "4", "u-1"] {
            lines.extend((10..18).map(|uid| line(metric, eid, uid)));
        }
    }
    let all = lines.concat();
    format!("{all}\n{all}")
}

fn facts_are_recorded_counted_and_forwarded(store: TestStore) {
    let server = &store.server;
    let countd = start(server);
    let (api, files) = (countd.api(), Files::new());
    // One of them exists already.
    api.act(
        "rbm",
        json!({ "etype": "note", "eid": "1", "uid": 10, "author": 9 }),
    );
    let ndjson = facts(|metric, eid, uid| {
        format!(
            r#"{{"metric":"{metric}","etype":"note","eid":"{eid}","uid":{uid},"author":"9","ts":{LONG_AGO}}}"#
        ) + "\n"
    });
    let file = files.write("facts.ndjson", ndjson);
    let printed = imported(server, "facts --job f1", &file);
    assert_eq!(
        printed,
        "imported: 320 records (159 changed something now), skipped: 0\nverified: 320 records, no differences\n"
    );
    wait_until_drained(server, PARTITIONS);
    for eid in ["1", "2", "3", "4", "u-1"] {
        let counts = counts(&api, eid);
        for metric in STORES {
            assert_eq!(counts[metric], 8, "{metric} {eid}");
            assert!(has_fact(&api, metric, eid, 17) && !has_fact(&api, metric, eid, 18));
        }
    }
    assert_eq!(api.user(9)["likesReceived"], 40);
    // Daily facts are on the day of their time.
    let day = store.key("s:daily:note:2:", "20200913", "note:2");
    let members = server.client().ok(&format!("SCARD {day}"));
    assert_eq!(reply::int(members), 8);
    // The same import does nothing more, and another one of the same facts changes nothing.
    let again = imported(server, "facts --job f1", &file);
    assert!(
        again.starts_with("imported: 320 records (0 changed"),
        "{again}"
    );
    let csv = facts(|metric, eid, uid| format!("\"{uid}\",{metric},{eid},\r\n"));
    let csv = files.write("facts.csv", format!("uid,metric,eid,ts\r\n{csv}"));
    let other = imported(server, "facts --job f2 --etype note", &csv);
    assert!(
        other.starts_with("imported: 320 records (0 changed"),
        "{other}"
    );
    wait_until_drained(server, PARTITIONS);
    assert_eq!(counts(&api, "1")["rbm"], 8);
    assert_eq!(api.user(9)["likesReceived"], 40);
}

fn counts_are_added_and_set(store: TestStore) {
    let server = &store.server;
    let countd = start(server);
    let (api, files) = (countd.api(), Files::new());
    let ndjson = concat!(
        "\u{feff}{\"etype\":\"note\",\"eid\":1,\"counts\":{\"read\":5,\"comment\":2}}\n",
        "\n",
        "{\"etype\":\"note\",\"eid\":\"1\",\"counts\":{\"view\":7}}\r\n",
        "{\"etype\":\"note\",\"eid\":\"u-1\",\"metric\":\"read\",\"count\":1099511627775}\n",
        "{\"etype\":\"note\",\"eid\":18446744073709551615,\"counts\":{\"read\":0,\"comment\":3}}",
    );
    let file = files.write("counts.jsonl", ndjson);
    let printed = imported(server, "counts --job c1", &file);
    assert_eq!(
        printed,
        "imported: 4 records (4 changed something now), skipped: 0\nverified: 4 records, no differences\n"
    );
    let max = u64::MAX.to_string();
    let check = |eid: &str, read: u64, comment: u64| {
        let counts = counts(&api, eid);
        assert_eq!(counts["read"], read, "{eid}");
        assert_eq!(counts["comment"], comment, "{eid}");
    };
    check("1", 12, 2);
    check("u-1", 1_099_511_627_775, 0);
    check(&max, 0, 3);
    // Once only.
    imported(server, "counts --job c1", &file);
    check("1", 12, 2);
    // Events are counted in addition.
    api.act("read", json!({ "etype": "note", "eid": "1", "uid": 7 }));
    wait_until_drained(server, PARTITIONS);
    check("1", 13, 2);
    // To existing values, in both forms of CSV.
    let wide = files.write(
        "wide.csv",
        "eid,etype,comment,read\n1,note,10,\n2,note,,4\n",
    );
    imported(server, "counts --job c2 --verify minimum", &wide);
    check("1", 13, 12);
    check("2", 4, 0);
    let long = files.write("long.csv", "eid,metric,count\n1,read,100\n2,comment,1\n");
    imported(server, "counts --job c3 --etype note --verify none", &long);
    check("1", 113, 12);
    check("2", 4, 1);
    // The sum is more than the file has, which is a difference.
    let (status, printed, errors) = outcome(server, "counts --job c4", &wide);
    assert_eq!(status, 1, "{errors}");
    assert!(
        printed.contains("wide.csv:2: comment of note 1: the source has 10, countd 22"),
        "{printed}"
    );
    assert!(errors.contains("2 differences"), "{errors}");
    // The last value of a counter replaces it.
    let values = files.write(
        "values.csv",
        "etype,eid,read\nnote,1,70\nnote,2,9\nnote,1,3\nnote,u-1,0\n",
    );
    imported(server, "counts --job c5 --mode set", &values);
    check("1", 3, 22);
    check("2", 9, 1);
    check("u-1", 0, 0);
}

fn facts_of_users_reach_their_counters(store: TestStore) {
    let server = &store.server;
    let countd = start(server);
    let (api, files) = (countd.api(), Files::new());
    let file = files.write("follows.csv", "eid,uid\n1,2\n1,3\n2,1\n");
    imported(
        server,
        "facts --job follows --etype user --metric follow",
        &file,
    );
    wait_until_drained(server, PARTITIONS);
    let user = |uid, counter: &str| api.user(uid)[counter].clone();
    assert_eq!(
        (user(1, "followers"), user(1, "followings")),
        (json!(2), json!(1))
    );
    assert_eq!(
        (user(3, "followers"), user(3, "followings")),
        (json!(0), json!(1))
    );
}

fn planted_differences_are_found(store: TestStore) {
    let server = &store.server;
    let countd = start(server);
    let (api, files) = (countd.api(), Files::new());
    let lines = (1..=300).map(|eid| format!("note,{eid},{}\n", eid % 7));
    let lines: String = lines.collect();
    let file = files.write("counts.csv", format!("etype,eid,comment\n{lines}"));
    imported(server, "counts --job c", &file);
    api.act("comment", json!({ "etype": "note", "eid": "77", "uid": 1 }));
    let (status, printed, errors) = outcome(server, "counts --job c", &file);
    assert_eq!(status, 1);
    let found = printed.lines().collect::<Vec<_>>();
    // The report follows.
    assert_eq!(found.len(), 2, "{printed}");
    assert!(found[1].starts_with("imported: 300 records"), "{printed}");
    let expected = "counts.csv:78: comment of note 77: the source has 0, countd 1";
    assert!(found[0].ends_with(expected), "{printed}");
    assert!(errors.contains("1 differences"), "{errors}");
    imported(server, "counts --job c --verify minimum", &file);

    for metric in STORES {
        let lines: String = (1..=300).map(|uid| format!("5,{uid}\n")).collect();
        let file = files.write("facts.csv", format!("eid,uid\n{lines}"));
        let words = format!("facts --job {metric} --metric {metric} --etype note");
        imported(server, &words, &file);
        api.act(
            metric,
            json!({ "etype": "note", "eid": "5", "uid": 123, "op": "remove" }),
        );
        let (status, printed, _) = outcome(server, &words, &file);
        assert_eq!(status, 1);
        let found = printed.lines().collect::<Vec<_>>();
        assert_eq!(found.len(), 2, "{printed}");
        let expected = format!("facts.csv:124: no {metric} of note 5 by 123");
        assert!(found[0].ends_with(&expected), "{printed}");
        assert!(found[1].starts_with("imported: 300 records"), "{printed}");
    }
}

fn dry_runs_write_nothing(store: TestStore) {
    let server = &store.server;
    super::setup::set_schema(server);
    let files = Files::new();
    let mut client = server.client();
    let before = reply::text(client.ok("DEBUG DIGEST"));
    let good = files.write("good.csv", "etype,eid,read\nnote,1,1\nnote,2,2\n");
    let printed = imported(server, "counts --job c --dry-run", &good);
    assert_eq!(printed, "valid: 2 records, invalid: 0\n");
    let bad = files.write("bad.csv", "etype,eid,uid\nnote,1,1\nnote,2,x-2\nblog,1,1\n");
    let words = "facts --job f --metric rbm --dry-run";
    let (status, _, errors) = outcome(server, words, &bad);
    assert_eq!(status, 1);
    // Without the module, facts are in Sets, but keep to numeric IDs.
    assert!(
        errors.contains("bad.csv:3: this metric requires numeric"),
        "{errors}"
    );
    let printed = imported(server, &format!("{words} --skip-invalid 2"), &bad);
    assert_eq!(printed, "valid: 1 records, invalid: 2\n");
    assert_eq!(reply::text(client.ok("DEBUG DIGEST")), before);
}

for_each_store! {
    [module objects plain cluster]
    facts_are_recorded_counted_and_forwarded
    counts_are_added_and_set
    facts_of_users_reach_their_counters
    planted_differences_are_found
    dry_runs_write_nothing
}
