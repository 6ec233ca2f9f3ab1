//! Dead letters are listed, retried and dropped as by `countd dead`.

use super::browser::Browser;
use super::{CONFIG, bury, event, letters, start};
use crate::support::stores::{TestStore, for_each_store, module};
use crate::support::{printed, run, wait_until_drained};
use countint_tests::wait_until;
use serde_json::json;

/// The names of the dead letters in forms.
fn names(store: &TestStore) -> Vec<String> {
    let letters = letters(store).into_iter();
    let name = |letter: serde_json::Value| {
        let id = letter["id"].as_str().expect("an ID");
        format!("{}:{id}", letter["partition"])
    };
    letters.map(name).collect()
}

fn selected_dead_letters_are_retried_and_dropped(store: TestStore) {
    let countd = start(&store, CONFIG);
    let api = countd.api();
    for metric in ["later", "never", "stays"] {
        bury(&store, &event(&json!({ "metric": metric })));
    }
    let names = names(&store);
    let browser = Browser::new(countd.port());
    let page = browser.page("/admin/dead");
    page.assert_has(&[
        "schema v1 has no metric later",
        "&quot;metric&quot;:&quot;never&quot;",
    ]);
    let token = page.form_token().to_owned();
    let act = |action: &str, more: &[(&str, &str)]| {
        let mut fields = vec![("form_token", token.as_str()), ("action", action)];
        fields.extend(more);
        browser.submit("/admin/dead", &fields)
    };
    printed(&run(
        &store.server,
        CONFIG,
        &["schema", "extend", "v1", "later"],
    ));
    let retried = act("retry", &[("id", &names[0])]);
    assert_eq!(retried.header("location"), "/admin/dead?retried=1&left=0");
    browser
        .page("/admin/dead?retried=1&left=0")
        .assert_has(&["1 retried, 0 left"]);
    wait_until("the retried event counts", || api.counts(1)["later"] == 1);
    // Again: the dead letter is gone, and nothing is counted twice.
    let again = act("retry", &[("id", &names[0])]);
    assert_eq!(again.header("location"), "/admin/dead?retried=0&left=1");
    let confirmation = act("drop", &[("id", &names[1])]);
    assert_eq!(confirmation.status, 200);
    confirmation.assert_has(&[
        "Drop 1 dead letters?",
        "name=\"confirmed\" value=\"yes\"",
        &names[1],
    ]);
    assert_eq!(
        letters(&store).len(),
        2,
        "nothing is dropped without a confirmation"
    );
    let dropped = act("drop", &[("id", &names[1]), ("confirmed", "yes")]);
    assert_eq!(dropped.header("location"), "/admin/dead?dropped=1&left=0");
    assert_eq!(self::names(&store), [names[2].clone()]);
    wait_until_drained(&store.server, super::PARTITIONS);
    assert_eq!(api.counts(1)["later"], 1);
    for (action, id) in [
        ("burn", names[2].as_str()),
        ("retry", "x"),
        ("drop", "1:x"),
        ("drop", "60000:1-0"),
    ] {
        assert_eq!(act(action, &[("id", id)]).status, 400, "{action} {id}");
    }
    assert_eq!(act("retry", &[("id", names[2].as_str()); 51]).status, 413);
    assert!(
        countd.log().contains("dead letters dropped"),
        "{}",
        countd.log()
    );
}

for_each_store!([module plain cluster] selected_dead_letters_are_retried_and_dropped);

#[test]
fn markup_in_dead_letters_is_text() {
    let store = module();
    let countd = start(&store, CONFIG);
    let markup = "\"><script>alert(1)</script><img src=x onerror=alert(2)>";
    bury(&store, &json!({ "etype": "note", "eid": markup }));
    bury(
        &store,
        &event(&json!({ "traceId": markup, "metric": "later" })),
    );
    let browser = Browser::new(countd.port());
    let page = browser.page("/admin/dead");
    page.assert_has(&["&lt;script&gt;alert(1)&lt;/script&gt;"]);
    assert!(
        !page.text.contains("<script>") && !page.text.contains("<img"),
        "{}",
        page.text
    );
    let names = names(&store);
    let fields = [
        ("form_token", page.form_token()),
        ("action", "drop"),
        ("id", &names[0]),
    ];
    let confirmation = browser.submit("/admin/dead", &fields);
    assert!(
        !confirmation.text.contains("<script>"),
        "{}",
        confirmation.text
    );
}

/// More dead letters than a page has.
#[test]
fn dead_letters_are_listed_in_pages() {
    let store = module();
    let countd = start(&store, CONFIG);
    let mut client = store.server.client();
    for number in 1..=120 {
        let payload = format!("letter {number}.");
        client.call(&[
            "XADD",
            "x:cnt-update:dead",
            &format!("{number}-0"),
            "reason",
            "a test",
            "kind",
            "?",
            "payload",
            &payload,
            "partition",
            "3",
            "offset",
            "1",
            "ts",
            "1764000000000",
        ]);
    }
    let browser = Browser::new(countd.port());
    let mut path = "/admin/dead".to_owned();
    let mut seen = Vec::new();
    loop {
        let page = browser.page(&path);
        let payloads = page.text.split("<code>letter ").skip(1);
        seen.extend(payloads.map(|rest| {
            let number = rest.split('.').next().expect("a number");
            number.parse::<u64>().expect("a number")
        }));
        let Some((before, _)) = page.text.split_once("\">Later dead letters</a>") else {
            break;
        };
        path = before.rsplit_once("href=\"").expect("a link").1.to_owned();
    }
    assert_eq!(seen, (1..=120).collect::<Vec<_>>());
}
