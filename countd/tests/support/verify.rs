//! Verifies every counter, status and page that the API can return against the model. [`invariants`](super::invariants) checks the data itself.

use super::api::Api;
use super::workload::{DAILY, Model, WorkloadSize, authors};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::thread;

/// The number of concurrent requests.
const CONCURRENCY: usize = 4;
/// The number of entities or users in a request.
const PAGE_SIZE: usize = 500;
/// The once metrics of notes.
const ONCE_METRICS: [&str; 3] = ["like", "fav", "publish"];

/// Verifies everything that the API can return.
pub fn assert_matches_model(api: &Api, model: &Model, size: WorkloadSize) {
    assert_matches_model_without_days(api, model, size);
    for metric in DAILY {
        for_each(&size.all_notes(), |note| {
            verify_days(api, model, metric, *note)
        });
    }
}

/// Verifies everything that the API can return, except counts by day.
pub fn assert_matches_model_without_days(api: &Api, model: &Model, size: WorkloadSize) {
    let notes = size.all_notes();
    let users: Vec<u64> = (1..=size.clients * size.users).collect();
    for_each(&notes.chunks(PAGE_SIZE).collect::<Vec<_>>(), |page| {
        verify_counters(api, model, page);
    });
    for_each(&notes, |note| {
        let response = api.ok(api.get(&format!("/entity/note/{note}")));
        let expected = model.author(*note, size).map(|author| author.to_string());
        assert_eq!(response["author"], json!(expected), "author of note {note}");
    });
    let counted: Vec<u64> = users.iter().copied().chain(authors()).collect();
    let expected = model.user_counters(size);
    for_each(&counted.chunks(PAGE_SIZE).collect::<Vec<_>>(), |page| {
        verify_user_counters(api, &expected, page);
    });
    for_each(&users, |uid| verify_timelines(api, model, *uid));
    for_each(&users, |uid| {
        verify_statuses(api, model, *uid, ("note", &ONCE_METRICS), &notes);
        verify_statuses(api, model, *uid, ("user", &["follow"]), &users);
        verify_pages(api, model, "follow", "user", *uid);
    });
    for_each(&notes, |note| {
        for metric in ONCE_METRICS {
            verify_pages(api, model, metric, "note", *note);
        }
    });
    eprintln!(
        "equal: {} counters of {} notes and {} users, {} statuses",
        notes.len() * 5 + counted.len() * 6,
        notes.len(),
        counted.len(),
        users.len() * (notes.len() * ONCE_METRICS.len() + users.len())
    );
}

/// Calls a function for each item, some concurrently.
fn for_each<T: Sync>(all: &[T], verify: impl Fn(&T) + Sync) {
    let verify = &verify;
    thread::scope(|scope| {
        for chunk in all.chunks(all.len().div_ceil(CONCURRENCY).max(1)) {
            scope.spawn(move || chunk.iter().for_each(verify));
        }
    });
}

fn items(etype: &str, eids: &[u64]) -> Json {
    let item = |eid: &u64| json!({ "etype": etype, "eid": eid });
    eids.iter().map(item).collect()
}

/// The items of a response, as many as requested.
fn post_for_items(api: &Api, path: &str, request: &Json, count: usize) -> Vec<Json> {
    let mut response = api.ok(api.post(path, request));
    let Json::Array(items) = response["items"].take() else {
        panic!("no items: {response}");
    };
    assert_eq!(items.len(), count);
    items
}

fn verify_counters(api: &Api, model: &Model, page: &[u64]) {
    let request = json!({ "items": items("note", page) });
    let found = post_for_items(api, "/counter/batch", &request, page.len());
    for (note, item) in page.iter().zip(found) {
        assert_eq!(item["counts"], model.note(*note), "note {note}");
    }
}

/// Verifies the counts by day, if the configuration keeps them.
fn verify_days(api: &Api, model: &Model, metric: &str, note: u64) {
    let path = format!("/history/{metric}/note/{note}");
    let (status, history) = api.get(&path);
    if history["code"] == "no_history" {
        return;
    }
    assert_eq!(status, 200, "{path}: {history}");
    let items = history["items"].as_array().expect("items").iter();
    let days = items.map(|item| item["count"].as_i64().expect("a count"));
    let sum = days.sum::<i64>() + history["before"].as_i64().expect("a number");
    let expected = &model.note(note)[metric];
    assert_eq!(json!(sum), *expected, "{path}: {history}");
}

fn verify_user_counters(
    api: &Api,
    expected: &BTreeMap<u64, BTreeMap<&'static str, u64>>,
    page: &[u64],
) {
    let request = json!({ "uids": page });
    let found = post_for_items(api, "/relation/counter/batch", &request, page.len());
    for (uid, item) in page.iter().zip(found) {
        let counts = item["counts"].as_object().expect("counters");
        assert_eq!(counts.len(), 6, "{item}");
        for (counter, count) in counts {
            let of_user = expected.get(uid);
            let of_user = of_user.and_then(|counts| counts.get(counter.as_str()));
            let expected = of_user.copied().unwrap_or(0);
            assert_eq!(count, &json!(expected), "{counter} of user {uid}");
        }
    }
}

/// Verifies a user's statuses for entities.
fn verify_statuses(
    api: &Api,
    model: &Model,
    uid: u64,
    (etype, metrics): (&'static str, &[&'static str]),
    eids: &[u64],
) {
    for page in eids.chunks(PAGE_SIZE) {
        let request = json!({ "uid": uid, "items": items(etype, page), "metrics": metrics });
        let found = post_for_items(api, "/status/batch", &request, page.len());
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

/// The number of items on a page of an entity or a user. Some are read in many short pages.
fn limit_of(id: u64) -> usize {
    if id.is_multiple_of(16) { 7 } else { PAGE_SIZE }
}

/// The items of all pages.
fn read_pages(api: &Api, path: &str, field: &str, limit: usize) -> Vec<Json> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let mut page = api.ok(api.get(&format!("{path}?limit={limit}{cursor}")));
        let Json::Array(more) = page[field].take() else {
            panic!("no {field}: {page}");
        };
        items.extend(more);
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return items,
        }
    }
}

/// A numeric ID in a response.
fn number(id: &Json) -> u64 {
    let number = id.as_str().and_then(|id| id.parse().ok());
    number.unwrap_or_else(|| panic!("not a numeric ID: {id}"))
}

/// Verifies the users of a fact, page by page.
fn verify_pages(api: &Api, model: &Model, metric: &'static str, etype: &'static str, eid: u64) {
    let path = format!("/who/{metric}/{etype}/{eid}");
    let users = read_pages(api, &path, "users", limit_of(eid));
    let mut users: Vec<u64> = users.iter().map(number).collect();
    let mut expected = model.users(metric, etype, eid);
    expected.sort_unstable();
    users.sort_unstable();
    assert_eq!(users, expected, "{metric} of {etype} {eid}");
}

/// Verifies what a user did, page by page.
fn verify_timelines(api: &Api, model: &Model, uid: u64) {
    let limit = limit_of(uid);
    for (metric, etype) in [
        ("like", "note"),
        ("fav", "note"),
        ("publish", "note"),
        ("follow", "user"),
    ] {
        let path = format!("/user/{uid}/{metric}/{etype}");
        let items = read_pages(api, &path, "items", limit);
        let times: Vec<u64> = items.iter().map_while(|item| item["ts"].as_u64()).collect();
        assert!(
            times.is_sorted_by(|one, other| one >= other),
            "{path}: {times:?}"
        );
        let without = items[times.len()..].iter().all(|item| item["ts"].is_null());
        assert!(without, "{path}: times follow facts without times");
        let mut found: Vec<u64> = items.iter().map(|item| number(&item["eid"])).collect();
        found.sort_unstable();
        assert_eq!(found, model.entities(metric, etype, uid), "{path}");
    }
    let list = |name: &str| {
        let users = read_pages(api, &format!("/user/{uid}/{name}"), "users", limit);
        let mut users: Vec<u64> = users.iter().map(number).collect();
        users.sort_unstable();
        users
    };
    let mut followers = model.users("follow", "user", uid);
    followers.sort_unstable();
    assert_eq!(list("followers"), followers, "followers of user {uid}");
    let followings = model.entities("follow", "user", uid);
    assert_eq!(list("followings"), followings, "followings of user {uid}");
}
