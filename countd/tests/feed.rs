//! Pages: order, default metrics, and damaged keys, which fail their own entity only.

use crate::support::stores::{TestStore, for_each_store};
use crate::support::{Countd, Settings, assert_refused, on_note, set_schema, wait_until_drained};
use countint_tests::{Server, wait_until};
use serde_json::{Value as Json, json};

fn notes(eids: &[u64]) -> Json {
    let note = |eid: &u64| json!({ "etype": "note", "eid": eid.to_string() });
    eids.iter().map(note).collect()
}

fn feed_has_counters_and_statuses_in_request_order(TestStore { server, .. }: TestStore) {
    let countd = Countd::start(&server, "");
    let api = countd.api();
    api.act("like", on_note(1, 42));
    api.act("like", on_note(1, 43));
    api.act("fav", on_note(3, 42));
    api.act("publish", on_note(3, 42));
    api.act("read", on_note(3, 42));
    wait_until_drained(&server, 1024);
    let feed = |body: Json| api.ok(api.post("/api/v1/feed", &body));
    let page = feed(json!({ "uid": "42", "items": notes(&[3, 1, 2, 3]) }));
    assert_eq!(page["uid"], "42");
    let items = page["items"].as_array().expect("items");
    let eids: Vec<&Json> = items.iter().map(|item| &item["eid"]).collect();
    assert_eq!(eids, ["3", "1", "2", "3"]);
    assert_eq!(
        items[0]["counts"],
        json!({ "comment": 0, "fav": 1, "like": 0, "read": 1, "repost": 0 })
    );
    // `follow` does not apply to notes.
    assert_eq!(
        items[0]["status"],
        json!({ "fav": true, "like": false, "publish": true })
    );
    assert_eq!(items[0], items[3]);
    assert_eq!(items[1]["counts"]["like"], 2);
    assert_eq!(items[1]["status"]["like"], true);
    assert_eq!(items[2]["status"]["like"], false);
    // A feed is what the other routes return.
    let request = json!({ "uid": "42", "items": notes(&[3, 1, 2, 3]) });
    let statuses = api.ok(api.post("/status/batch", &request));
    let counts = api.ok(api.post("/counter/batch", &json!({ "items": request["items"] })));
    for (index, item) in items.iter().enumerate() {
        assert_eq!(item["status"], statuses["items"][index]["status"]);
        assert_eq!(item["counts"], counts["items"][index]["counts"]);
    }
    let selected = feed(
        json!({ "uid": "42", "items": notes(&[3]), "metrics": ["view", "collect", "publish"] }),
    );
    assert_eq!(
        selected["items"],
        json!([{ "etype": "note", "eid": "3", "counts": { "fav": 1, "read": 1 },
            "status": { "fav": true, "publish": true } }])
    );
    let no_counts = feed(json!({ "uid": "42", "items": notes(&[3]), "metrics": ["publish"] }));
    assert_eq!(no_counts["items"][0]["counts"], json!({}));
    let no_status = feed(json!({ "uid": "42", "items": notes(&[3]), "metrics": ["read"] }));
    assert_eq!(no_status["items"][0]["status"], json!({}));
    assert_eq!(
        feed(json!({ "uid": "42", "items": [] }))["items"],
        json!([])
    );
    // A user whose ID the fact store cannot hold has no facts.
    let other = feed(json!({ "uid": "a-b", "items": notes(&[3]) }));
    assert_eq!(
        other["items"][0]["status"],
        json!({ "fav": false, "like": false, "publish": false })
    );
}

fn feed_refuses_what_cannot_be_read(TestStore { server, .. }: TestStore) {
    let countd = Countd::start(&server, "[http]\nmax_batch = 3\n");
    let api = countd.api();
    let items = notes(&[1]);
    let cats = json!([{ "etype": "note", "eid": "1" }, { "etype": "cat", "eid": "1" }]);
    for (body, status, code) in [
        (json!({ "items": items }), 400, "malformed"),
        (json!({ "uid": "1" }), 400, "malformed"),
        (
            json!({ "uid": "1", "items": items, "metrics": [] }),
            400,
            "malformed",
        ),
        (
            json!({ "uid": "1", "items": items, "metrics": null }),
            400,
            "malformed",
        ),
        (
            json!({ "uid": "1", "items": items, "more": 1 }),
            400,
            "malformed",
        ),
        (json!({ "uid": "1", "items": cats }), 404, "unknown_type"),
        (
            json!({ "uid": "1", "items": items, "metrics": ["nope"] }),
            404,
            "unknown_metric",
        ),
        (
            json!({ "uid": "a", "items": items, "metrics": ["like"] }),
            422,
            "unprocessable",
        ),
        (
            json!({ "uid": "1", "items": notes(&[1, 2, 3, 4]) }),
            413,
            "too_many",
        ),
    ] {
        assert_refused(&api, "/feed", &body, status, code);
    }
}

fn damaged_keys_fail_their_own_entity(store: TestStore) {
    let server = &store.server;
    let countd = Countd::start(server, "");
    let api = countd.api();
    for eid in [1, 2, 3] {
        api.act("like", on_note(eid, 42));
    }
    let mut client = server.client();
    let counters = store.counters("v1", "note:1", 1024);
    client.ok(&format!("DEL {counters} rbm:like:note:2"));
    client.ok(&format!("LPUSH {counters} x"));
    client.ok("LPUSH rbm:like:note:2 x");
    let request = json!({ "uid": "42", "items": notes(&[3, 1, 2]), "metrics": ["like"] });
    let counters = json!({ "items": request["items"] });
    for (path, body, damaged) in [
        ("/feed", &request, vec!["2"]),
        ("/status/batch", &request, vec!["2"]),
        ("/counter/batch", &counters, vec![]),
    ] {
        let page = api.ok(api.post(path, body));
        let items = page["items"].as_array().expect("items");
        let eids: Vec<&Json> = items.iter().map(|item| &item["eid"]).collect();
        assert_eq!(eids, ["3", "1", "2"], "{path}");
        for item in items {
            let is_damaged = damaged.iter().any(|eid| item["eid"] == *eid);
            assert_eq!(item.get("error").is_some(), is_damaged, "{path}: {item}");
            if is_damaged {
                let error = &item["error"];
                assert_eq!(
                    (&error["code"], &error["status"]),
                    (&json!("damaged"), &json!(500))
                );
                assert!(item.get("counts").is_none() && item.get("status").is_none());
            }
        }
        assert!(items[0]["counts"]["like"] == 1 || items[0]["status"]["like"] == true);
    }
    let damaged = store.user_counters("7", 1024);
    client.ok(&format!("DEL {damaged}"));
    client.ok(&format!("LPUSH {damaged} x"));
    let page = api.ok(api.post("/relation/counter/batch", &json!({ "uids": ["7", "8"] })));
    assert_eq!(page["items"][0]["uid"], "7");
    for item in [0, 1] {
        assert_eq!(page["items"][item]["counts"]["followers"], 0, "{page}");
    }
    // The counters of note 1 were rebuilt from their facts.
    assert_eq!(api.counts(1)["like"], 1);
}

for_each_store! {
    [module objects plain cluster]
    feed_has_counters_and_statuses_in_request_order
    feed_refuses_what_cannot_be_read
}

/// Tests that use the key names of a single server, which have no hash tags.
mod keys {
    use super::*;

    for_each_store! {
        [module objects plain]
        damaged_keys_fail_their_own_entity
    }
}

/// Entities of several types keep their order, and each has the metrics of its type.
#[test]
fn pages_of_several_types_keep_their_order() {
    let server = Server::start();
    let config = "[entities]\nnote = \"v1\"\npost = \"v1\"\n[metrics.like]\nnature = \"once\"\ncount = \"now\"\n\
                  [metrics.save]\nnature = \"once\"\ncount = \"never\"\nentities = [\"post\"]\n";
    let countd = Countd::start(&server, config);
    let api = countd.api();
    api.act("save", json!({ "eid": "2", "uid": "42" }));
    let items = json!([{ "etype": "post", "eid": "2" }, { "etype": "note", "eid": "1" }, { "etype": "post", "eid": "3" }]);
    let request = json!({ "uid": "42", "items": items });
    for path in ["/feed", "/status/batch"] {
        let page = api.ok(api.post(path, &request));
        let statuses: Vec<&Json> = page["items"]
            .as_array()
            .expect("items")
            .iter()
            .map(|item| &item["status"])
            .collect();
        assert_eq!(
            statuses,
            [
                &json!({ "like": false, "save": true }),
                &json!({ "like": false }),
                &json!({ "like": false, "save": false })
            ],
            "{path}"
        );
    }
    let status = api.ok(api.get("/status/post/2?uid=42"));
    assert_eq!(status["status"], json!({ "like": false, "save": true }));
}

/// A page goes to the server at once, whatever it reads. A server without the scripts of a fact store gets them.
#[test]
fn a_page_is_one_pipeline() {
    let server = Server::start();
    let config = "[entities]\nnote = \"v1\"\npost = \"v1\"\n[metrics.like]\nnature = \"once\"\ncount = \"now\"\n\
                  [metrics.fav]\nnature = \"once\"\ncount = \"now\"\nfacts = \"daily\"\n\
                  [metrics.save]\nnature = \"once\"\ncount = \"never\"\nfacts = \"bitmap\"\n";
    set_schema(&server, config);
    let command = "serve";
    let countd = Countd::with(&server, &Settings { command, config });
    let (api, mut client) = (countd.api(), server.client());
    for metric in ["like", "fav", "save"] {
        api.act(metric, on_note(1, 42));
    }
    let items = json!([{ "etype": "note", "eid": "1" }, { "etype": "post", "eid": "a-b" }]);
    let request = json!({ "uid": "42", "items": items });
    let page = || api.ok(api.post("/feed", &request));
    client.ok("SCRIPT FLUSH");
    let expected = json!({ "fav": true, "like": true, "save": true });
    assert_eq!(page()["items"][0]["status"], expected);
    let mut reads = || -> u64 {
        let stats = client.info("stats");
        stats["total_reads_processed"].parse().expect("a number")
    };
    // The server reads the pipeline of a page at once. INFO and the connection's own commands come on top: on a busy machine more of these.
    wait_until("a page is one read", || {
        let before = reads();
        for _ in 0..100 {
            page();
        }
        reads() - before < 130
    });
}
