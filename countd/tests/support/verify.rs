//! Whether everything that can be asked is as the model says: each counter, each status and each page, none left out.

use super::Api;
use super::workload::{Model, Size, author};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::thread;

/// Questions at a time.
const AT_ONCE: usize = 4;
/// Entities or users in a question.
const PAGE: usize = 500;
/// What is done to a note once.
const ONCE: [&str; 3] = ["like", "fav", "publish"];

/// Compares everything that can be asked with the model.
pub fn assert_matches_model(api: &Api, model: &Model, size: Size) {
    let notes: Vec<u64> = (0..size.notes).collect();
    let users: Vec<u64> = (1..=size.clients * size.users).collect();
    each(&notes.chunks(PAGE).collect::<Vec<_>>(), |page| {
        counters(api, model, page);
    });
    let authors = (0..17).map(author);
    let counted: Vec<u64> = users.iter().copied().chain(authors).collect();
    let expected = model.user_counters();
    each(&counted.chunks(PAGE).collect::<Vec<_>>(), |page| {
        user_counters(api, &expected, page);
    });
    each(&users, |uid| {
        statuses(api, model, *uid, ("note", &ONCE), &notes);
        statuses(api, model, *uid, ("user", &["follow"]), &users);
        pages(api, model, "follow", "user", *uid);
    });
    each(&notes, |note| {
        for metric in ONCE {
            pages(api, model, metric, "note", *note);
        }
    });
    eprintln!(
        "equal: {} counters of {} notes and {} users, {} statuses",
        notes.len() * 5 + counted.len() * 5,
        notes.len(),
        counted.len(),
        users.len() * (notes.len() * ONCE.len() + users.len())
    );
}

/// Does it to each, some at a time.
fn each<T: Sync>(all: &[T], what: impl Fn(&T) + Sync) {
    let what = &what;
    thread::scope(|scope| {
        for share in all.chunks(all.len().div_ceil(AT_ONCE).max(1)) {
            scope.spawn(move || share.iter().for_each(what));
        }
    });
}

fn items(etype: &str, eids: &[u64]) -> Json {
    let item = |eid: &u64| json!({ "etype": etype, "eid": eid });
    eids.iter().map(item).collect()
}

/// The items of an answer, as many as were asked for.
fn answered(api: &Api, path: &str, request: &Json, count: usize) -> Vec<Json> {
    let mut response = api.ok(api.post(path, request));
    let Json::Array(items) = response["items"].take() else {
        panic!("no items: {response}");
    };
    assert_eq!(items.len(), count);
    items
}

fn counters(api: &Api, model: &Model, page: &[u64]) {
    let request = json!({ "items": items("note", page) });
    let found = answered(api, "/counter/batch", &request, page.len());
    for (note, item) in page.iter().zip(found) {
        assert_eq!(item["counts"], model.note(*note), "note {note}");
    }
}

fn user_counters(api: &Api, expected: &BTreeMap<u64, BTreeMap<&'static str, u64>>, page: &[u64]) {
    let request = json!({ "uids": page });
    let found = answered(api, "/relation/counter/batch", &request, page.len());
    for (uid, item) in page.iter().zip(found) {
        let counts = item["counts"].as_object().expect("counters");
        assert_eq!(counts.len(), 5, "{item}");
        for (counter, count) in counts {
            let of_user = expected.get(uid);
            let of_user = of_user.and_then(|counts| counts.get(counter.as_str()));
            let expected = of_user.copied().unwrap_or(0);
            assert_eq!(count, &json!(expected), "{counter} of user {uid}");
        }
    }
}

/// What a user did to each of these.
fn statuses(
    api: &Api,
    model: &Model,
    uid: u64,
    (etype, metrics): (&'static str, &[&'static str]),
    eids: &[u64],
) {
    for page in eids.chunks(PAGE) {
        let request = json!({ "uid": uid, "items": items(etype, page), "metrics": metrics });
        let found = answered(api, "/status/batch", &request, page.len());
        for (eid, item) in page.iter().zip(found) {
            let status = item["status"].as_object().expect("statuses");
            assert_eq!(status.len(), metrics.len(), "{item}");
            for metric in metrics {
                let did = model.facts.contains(&(metric, etype, *eid, uid));
                assert_eq!(
                    status[*metric], did,
                    "user {uid}, {metric} of {etype} {eid}"
                );
            }
        }
    }
}

/// Who did it, page by page: here and there many short ones.
fn pages(api: &Api, model: &Model, metric: &'static str, etype: &'static str, eid: u64) {
    let limit = if eid.is_multiple_of(16) { 7 } else { PAGE };
    let (mut users, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/who/{metric}/{etype}/{eid}?limit={limit}{cursor}");
        let page = api.ok(api.get(&path));
        for user in page["users"].as_array().expect("users") {
            let user = user.as_str().and_then(|user| user.parse::<u64>().ok());
            users.push(user.expect("an id"));
        }
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let mut expected = model.users(metric, etype, eid);
    expected.sort_unstable();
    users.sort_unstable();
    assert_eq!(users, expected, "{metric} of {etype} {eid}");
}
