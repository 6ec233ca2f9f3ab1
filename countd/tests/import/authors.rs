//! Imports of authors: registered with their credit, like those of `PUT /entity/{etype}/{eid}`.

use super::setup::{Files, PARTITIONS, imported, outcome, start};
use crate::support::stores::{TestStore, for_each_store};
use crate::support::wait_until_drained;
use serde_json::{Value as Json, json};

for_each_store! {
    [module objects plain cluster]
    authors_are_registered_with_their_credit
    invalid_authors_are_reported
}

fn authors_are_registered_with_their_credit(store: TestStore) {
    let server = &store.server;
    let countd = start(server);
    let (api, files) = (countd.api(), Files::new());
    for eid in ["1", "2", "u-1", "3"] {
        for uid in 10..14 {
            api.act("rbm", json!({ "etype": "note", "eid": eid, "uid": uid }));
        }
    }
    // It moves to another author.
    api.ok(api.put("/entity/note/3", &json!({ "author": 6 })));
    let likes = |uid: u64| {
        wait_until_drained(server, PARTITIONS);
        api.user(uid)["likesReceived"].as_u64().expect("a number")
    };
    let ndjson = r#"{"etype":"note","eid":1,"author":8}
{"etype":"note","eid":"u-1","author":"7"}
{"etype":"note","eid":"3","author":"7"}
{"etype":"note","eid":1,"author":7}
"#;
    let file = files.write("authors.ndjson", ndjson);
    let valid = imported(server, "authors --job a --dry-run", &file);
    assert_eq!(valid, "valid: 4 records, invalid: 0\n");
    assert_eq!(likes(7), 0);
    let printed = imported(server, "authors --job a", &file);
    assert_eq!(
        printed,
        "imported: 4 records (4 changed something now), skipped: 0\nverified: 4 records, no differences\n"
    );
    assert_eq!((likes(6), likes(7), likes(8)), (0, 12, 0));
    let csv = files.write("authors.csv", "eid,author\n2,7\n4,a-7\n");
    let words = "authors --job b --etype note";
    imported(server, words, &csv);
    assert_eq!(likes(7), 16);
    // Once more: nothing changes, and the file is compared again.
    let again = imported(server, words, &csv);
    assert!(again.contains("0 changed something now"), "{again}");
    let author = |eid: &str| api.ok(api.get(&format!("/entity/note/{eid}")))["author"].clone();
    assert_eq!([author("1"), author("3"), author("4")], ["7", "7", "a-7"]);
    api.ok(api.put("/entity/note/2", &json!({ "author": null })));
    let (status, printed, _) = outcome(server, words, &csv);
    assert_eq!(status, 1);
    assert!(
        printed.contains("the author of note 2: the source has 7, countd none"),
        "{printed}"
    );
    let (status, ..) = outcome(server, &format!("{words} --verify none"), &csv);
    assert_eq!((status, author("2")), (0, Json::Null));
}

fn invalid_authors_are_reported(store: TestStore) {
    let server = &store.server;
    let countd = start(server);
    let files = Files::new();
    for (number, (line, expected)) in [
        (r#"{"etype":"note","eid":1}"#, "author is missing"),
        (
            r#"{"etype":"user","eid":1,"author":2}"#,
            "a user has no author",
        ),
        (
            r#"{"etype":"car","eid":1,"author":2}"#,
            "there is no entity type car",
        ),
        (r#"{"etype":"note","eid":1,"author":"a:b"}"#, "an ID has"),
        (
            r#"{"etype":"note","eid":1,"author":2,"uid":3}"#,
            "uid is not expected here",
        ),
        (
            r#"{"metric":"like","etype":"note","eid":1,"author":2}"#,
            "metric is not expected here",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let file = files.write("bad.ndjson", format!("{line}\n"));
        let (status, _, errors) = outcome(server, &format!("authors --job bad-{number}"), &file);
        assert_eq!(status, 1, "{line}");
        assert!(errors.contains(expected), "{line}: {errors}");
    }
    let header = files.write("bad.csv", "etype,eid,author,uid\nnote,1,2,3\n");
    let (_, _, errors) = outcome(server, "authors --job header", &header);
    assert!(errors.contains("unknown column uid"), "{errors}");
    let skipped = files.write("some.csv", "etype,eid,author\nuser,1,2\nnote,1,2\n");
    let printed = imported(server, "authors --job some --skip-invalid 1", &skipped);
    assert!(printed.contains("skipped: 1"), "{printed}");
    let author = countd.api().get("/entity/note/1").1["author"].clone();
    assert_eq!(author, "2");
}
