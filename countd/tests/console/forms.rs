//! A form that another site sends, or that has no secret of the session, changes nothing.

use super::browser::{Browser, SAME_ORIGIN, encode};
use super::{CONFIG, bury, event, letters, start};
use crate::support::stores::module;
use serde_json::json;

#[test]
fn forms_of_others_change_nothing() {
    let store = module();
    let countd = start(&store, CONFIG);
    bury(&store, &event(&json!({ "metric": "later" })));
    let letter = &letters(&store)[0];
    let id = format!(
        "{}:{}",
        letter["partition"],
        letter["id"].as_str().expect("an ID")
    );
    let browser = Browser::new(countd.port());
    let page = browser.page("/admin/dead");
    page.assert_has(&[&format!("value=\"{id}\"")]);
    let form = |token: &str| {
        encode(&[
            ("form_token", token),
            ("action", "drop"),
            ("confirmed", "yes"),
            ("id", &id),
        ])
    };
    let own = form(page.form_token());
    let other = Browser::new(countd.port());
    let of_other = form(other.page("/admin/dead").form_token());
    let host = format!("http://127.0.0.1:{}", countd.port());
    for (headers, body) in [
        (vec![], &own),
        (vec![("sec-fetch-site", "cross-site")], &own),
        (vec![("sec-fetch-site", "same-site")], &own),
        (vec![("sec-fetch-site", "none")], &own),
        (vec![("origin", "http://evil.example")], &own),
        (vec![("origin", "null")], &own),
        (
            vec![("sec-fetch-site", "cross-site"), ("origin", host.as_str())],
            &own,
        ),
        (vec![SAME_ORIGIN], &of_other),
        (vec![SAME_ORIGIN], &form("")),
        (
            vec![SAME_ORIGIN],
            &encode(&[("action", "drop"), ("confirmed", "yes"), ("id", &id)]),
        ),
    ] {
        let refused = browser.send("POST", "/admin/dead", &headers, body);
        assert_eq!(refused.status, 403, "{headers:?} {body}: {}", refused.text);
    }
    let stranger = Browser::new(countd.port());
    let refused = stranger.send("POST", "/admin/dead", &[SAME_ORIGIN], &own);
    assert_eq!(
        refused.status, 403,
        "a form needs the cookie of its session"
    );
    assert_eq!(letters(&store).len(), 1);
    // A GET never changes anything.
    browser.page(&format!("/admin/dead?action=drop&confirmed=yes&id={id}"));
    assert_eq!(letters(&store).len(), 1);
    let done = browser.send("POST", "/admin/dead", &[("origin", &host)], &own);
    assert_eq!(
        (done.status, done.header("location")),
        (303, "/admin/dead?dropped=1&left=0")
    );
    assert_eq!(letters(&store).len(), 0);
    let long = form(&"x".repeat(100_000));
    let refused = browser.send("POST", "/admin/dead", &[SAME_ORIGIN], &long);
    assert_eq!(refused.status, 413);
}
