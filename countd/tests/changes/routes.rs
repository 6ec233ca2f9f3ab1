//! Requests, rights and filters.

use super::{CONFIG, follow};
use crate::support::stores::module;
use crate::support::{Countd, EventStream, on_note};
use serde_json::json;

#[test]
fn types_are_filtered() {
    let store = module();
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    let (mut notes, mut users) = (
        follow(&countd, "?etype=note"),
        follow(&countd, "?etype=user"),
    );
    let mut both = follow(&countd, "?etype=note,user");
    for uid in 0..20 {
        api.act("read", on_note(1, uid));
        api.act("follow", json!({ "eid": uid, "uid": 100 }));
    }
    let last = ["user:19", "note:1"];
    both.wait_for(&last);
    notes.wait_for(&last[1..]);
    users.wait_for(&last[..1]);
    assert!(notes.seen.iter().all(|one| one.starts_with("note:")));
    assert!(users.seen.iter().all(|one| one.starts_with("user:")));
}

#[test]
fn invalid_requests_are_refused() {
    let store = module();
    let countd = Countd::start(&store.server, CONFIG);
    let api = countd.api();
    for (path, status, code) in [
        ("/changes?etype=clap", 404, "unknown_type"),
        ("/changes?etype=no:te", 400, "malformed"),
        ("/changes?type=note", 400, "malformed"),
    ] {
        let refused = api.request(path, &[], None);
        assert_eq!(
            (refused.status, &refused.json["code"]),
            (status, &json!(code)),
            "{path}"
        );
    }
    for id in ["-1", "a", "", "99999999999999999999", "1-0"] {
        let refused = api.request("/changes", &[("last-event-id", id)], None);
        assert_eq!(
            (refused.status, &refused.json["code"]),
            (400, &json!("malformed")),
            "{id}"
        );
    }
    let off = Countd::start(&store.server, "[log]\npartitions = 16\n");
    let refused = off.api().request("/changes", &[], None);
    assert_eq!(
        (refused.status, &refused.json["code"]),
        (404, &json!("no_route"))
    );
}

#[test]
fn a_stream_needs_the_right_to_read() {
    let store = module();
    let config = format!(
        "{CONFIG}[auth]\ntokens = [{{ token = \"reader-reader-reader\", rights = [\"read\"] }}, \
         {{ token = \"writer-writer-writer\", rights = [\"write\"] }}]\n"
    );
    let countd = Countd::start(&store.server, &config);
    let open = |token: &str| {
        let headers = [("authorization", format!("Bearer {token}"))];
        let headers: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        EventStream::open(countd.port(), "/changes", &headers).status
    };
    assert_eq!(open("reader-reader-reader"), 200);
    assert_eq!(open("writer-writer-writer"), 403);
    assert_eq!(open("nobody-nobody-nobody"), 401);
}
