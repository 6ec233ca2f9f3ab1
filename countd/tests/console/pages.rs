//! The pages show what the API and the commands know.

use super::browser::Browser;
use super::{CONFIG, bury, event, start};
use crate::support::stores::{TestStore, adoptable, for_each_store, module};
use crate::support::{metric, on_note, wait_until_drained, with, workload};
use countint_tests::wait_until;
use serde_json::json;

const PAGES: [&str; 9] = [
    "/admin",
    "/admin/entity",
    "/admin/entity?etype=note&eid=1",
    "/admin/user",
    "/admin/user?uid=7",
    "/admin/dead",
    "/admin/audit",
    "/admin/reconciliation",
    "/admin/schemas",
];

fn every_page_is_whole(store: TestStore) {
    let countd = start(&store, &format!("{CONFIG}[hot]\nmin_rate = 1\n"));
    let api = countd.api();
    for uid in 42..45 {
        api.act("like", with(on_note(1, uid), json!({ "author": "7" })));
        api.act("read", on_note(1, uid));
    }
    api.act(
        "follow",
        json!({ "etype": "user", "eid": "7", "uid": "42" }),
    );
    let adjustment = json!({ "etype": "note", "eid": "1", "metric": "read", "add": 5, "reason": "<b>old</b> reads & more" });
    api.ok(api.post("/counter/adjust", &adjustment));
    wait_until_drained(&store.server, super::PARTITIONS);
    bury(&store, &event(&json!({ "metric": "later" })));
    let browser = Browser::new(countd.port());
    for path in PAGES {
        let page = browser.page(path);
        let head = browser.send("HEAD", path, &[], "");
        assert_eq!((head.status, head.text.as_str()), (200, ""), "{path}");
        for response in [&page, &head] {
            assert_eq!(response.header("content-type"), "text/html; charset=utf-8");
            assert_eq!(response.header("cache-control"), "no-store");
            let policy = response.header("content-security-policy");
            assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"));
        }
        // The policy permits no inline scripts and styles.
        for inline in ["<script>", "<style", " style=", " onclick="] {
            assert!(!page.text.contains(inline), "{path}: {inline}");
        }
    }
    let overview = browser.page("/admin");
    overview.assert_has(&[
        "data-figure=\"dead\">1<",
        "data-figure=\"lag\">0<",
        "data-figure=\"consumers\">1<",
    ]);
    let figures = browser.page("/admin/figures").text;
    let figures: serde_json::Value = serde_json::from_str(&figures).expect("JSON");
    assert_eq!((&figures["lag"], &figures["dead"]), (&json!(0), &json!(1)));
    assert_eq!(figures["appended"], figures["counted"]);
    let note = browser.page("/admin/entity?etype=note&eid=1");
    note.assert_has(&[
        "<dt>like</dt><dd><span class=\"number\">3</span>",
        "<dt>read</dt><dd><span class=\"number\">8</span>",
        "Author: <a href=\"/admin/user?uid=7\">7</a>",
        "<a href=\"/admin/user?uid=44\">44</a>",
        "reason: &lt;b&gt;old&lt;/b&gt; reads &amp; more",
    ]);
    wait_until("the timeline of the user has the like", || {
        let page = browser.page("/admin/user?uid=42").text;
        page.contains("<a href=\"/admin/entity?etype=note&amp;eid=1\">note 1</a>")
    });
    browser.page("/admin/user?uid=7").assert_has(&[
        "<dt>likesReceived</dt><dd><span class=\"number\">3</span>",
        "<dt>followers</dt><dd><span class=\"number\">1</span>",
        "<a href=\"/admin/user?uid=42\">42</a>",
    ]);
    wait_until("the note is hot", || {
        for _ in 0..100 {
            api.counts(1);
        }
        browser.page("/admin").text.contains("\">note 1</a></th>")
    });
}

for_each_store!([module plain cluster] every_page_is_whole);

#[test]
fn the_counters_of_each_type_are_described() {
    let mut store = adoptable();
    let types = "[schemas.v2]\ncounters = [\"shown\", \"shelved\"]\n[entities]\nnote = \"v1\"\nbook = \"v2\"\n";
    let shown = "[metrics.shown]\nnature = \"repeatable\"\ncount = \"batched\"\ndaily = true\nentities = [\"book\"]\n";
    let config = format!("{CONFIG}{types}{}{shown}", workload::metrics());
    let countd = start(&store, &config);
    let browser = Browser::new(countd.port());
    let schemas = browser.page("/admin/schemas");
    schemas.assert_has(&[
        "<h2>Type book</h2><p>Schema v2. Counters are Strings, without the module.</p>",
        "<td class=\"right\">0</td><th scope=\"row\">shown</th><td>each time; when the event is consumed; by day</td>",
        "<td class=\"right\">1</td><th scope=\"row\">shelved</th><td>no metric of this configuration</td>",
        "<th scope=\"row\">like</th><td>once for each user, facts in rbm; with the action",
        "<th scope=\"row\">followers</th><td>follow on the user</td>",
    ]);
    let none = browser.page("/admin/reconciliation");
    none.assert_has(&["None is under way."]);
    // An adoption that has not ended.
    store.server.load_module();
    let mut client = store.server.client();
    client.ok("HSET countd:layout counters plain-or-module");
    client.ok("HINCRBY countd:layout epoch 1");
    wait_until("the process follows the layout", || {
        let page = browser.page("/admin/reconciliation").text;
        page.contains("<td><code>countd storage adopt</code></td>")
    });
    let schemas = browser.page("/admin/schemas");
    schemas.assert_has(&["Counters are being converted to objects of the module."]);
    wait_until("the metric follows", || {
        metric(&countd.api(), "countd_storage_unfinished") == 1
    });
}

#[test]
fn unknown_and_invalid_entities_are_told_apart() {
    let store = module();
    let countd = start(&store, CONFIG);
    let browser = Browser::new(countd.port());
    let unknown = browser.page("/admin/entity?etype=note&eid=404");
    unknown.assert_has(&["none registered", "No corrections."]);
    for (path, status) in [
        ("/admin/entity?etype=cat&eid=1", 404),
        ("/admin/entity?etype=note&eid=%3Cscript%3E", 400),
        ("/admin/user?uid=%22", 400),
        ("/admin/dead?after=1", 400),
        ("/admin/dead?after=9000:1-0", 400),
        ("/admin/dead?after=1:%2B", 400),
        ("/admin/audit?eid=%3C", 400),
        ("/admin/audit?before=x", 400),
    ] {
        let page = browser.get(path);
        assert_eq!(page.status, status, "{path}");
        assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
        assert!(!page.text.contains("<script>"), "{path}: {}", page.text);
    }
    let user = browser.get("/admin/entity?etype=user&eid=7");
    assert_eq!(
        (user.status, user.header("location")),
        (303, "/admin/user?uid=7")
    );
}

/// 1,100 corrections of two notes, so that pages and reads of several chunks are tested.
#[test]
fn the_audit_is_listed_in_pages_and_filtered() {
    let store = module();
    let countd = start(&store, CONFIG);
    let browser = Browser::new(countd.port());
    let mut client = store.server.client();
    for number in 1..=1_100 {
        let eid = if number % 100 == 0 { "2" } else { "1" };
        let id = format!("{}-0", 1_764_000_000_000_u64 + number);
        let after = number.to_string();
        client.call(&[
            "XADD",
            "x:audit:cntfix",
            &id,
            "before",
            "0",
            "after",
            &after,
            "difference",
            &after,
            "source",
            "reconcile",
            "etype",
            "note",
            "eid",
            eid,
            "metric",
            "like",
        ]);
    }
    let mut path = "/admin/audit".to_owned();
    let mut seen = Vec::new();
    loop {
        let page = browser.page(&path);
        let rows = page.text.split("<tr>").skip(2);
        seen.extend(rows.map(|row| {
            let cells: Vec<&str> = row.split("<td class=\"right\">").collect();
            let after = cells[2].split('<').next().expect("a number");
            after.parse::<u64>().expect("a number")
        }));
        let Some((before, _)) = page.text.split_once("\">Older entries</a>") else {
            break;
        };
        let link = before.rsplit_once("href=\"").expect("a link").1;
        path = link.replace("&amp;", "&");
    }
    assert_eq!(seen, (1..=1_100).rev().collect::<Vec<_>>());
    let filtered = browser.page("/admin/audit?etype=note&eid=2&metric=like&source=reconcile");
    assert_eq!(filtered.text.matches("<tr>").count(), 1 + 11);
    assert!(
        !filtered.text.contains("Older entries"),
        "{}",
        filtered.text
    );
    let none = browser.page("/admin/audit?source=adjust");
    none.assert_has(&["No corrections."]);
}

#[test]
fn the_progress_of_reconciliation_is_that_of_the_consumers() {
    let store = module();
    let config = format!("{CONFIG}[reconcile]\ninterval_seconds = 1\nsample = 1\n");
    let countd = start(&store, &config);
    let api = countd.api();
    api.act("like", on_note(1, 42));
    wait_until_drained(&store.server, super::PARTITIONS);
    let browser = Browser::new(countd.port());
    wait_until("sweeps over rows and keys are listed", || {
        let page = browser.page("/admin/reconciliation").text;
        page.contains("Rows of note: 1 in") && page.contains("Keys of the node with partition 0")
    });
    let mut client = store.server.client();
    wait_until("a counter that differs is listed", || {
        // The next round compares it, and removes it because it is right.
        client.ok("HSET countd:drift note:1:like 3/9");
        let page = browser.page("/admin/reconciliation").text;
        page.contains("<td>like</td><td class=\"right\">3</td>")
    });
    wait_until("the histogram has comparisons", || {
        let page = browser.page("/admin").text;
        page.contains("<meter")
    });
}

#[test]
fn static_files_are_revalidated() {
    let store = module();
    let countd = start(&store, CONFIG);
    let browser = Browser::new(countd.port());
    for (name, media_type) in [
        ("base.css", "text/css; charset=utf-8"),
        ("console.js", "text/javascript; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
    ] {
        let path = format!("/assets/{name}");
        let first = browser.page(&path);
        assert_eq!(first.header("content-type"), media_type);
        let etag = first.header("etag");
        assert!(etag.starts_with('"') && !first.text.is_empty(), "{etag}");
        let again = browser.send("GET", &path, &[("if-none-match", etag)], "");
        assert_eq!((again.status, again.text.as_str()), (304, ""));
        let other = browser.send("GET", &path, &[("if-none-match", "\"other\"")], "");
        assert_eq!(other.status, 200);
        let head = browser.send("HEAD", &path, &[], "");
        assert_eq!((head.status, head.header("etag")), (200, etag));
    }
    assert_eq!(browser.get("/assets/none.css").status, 404);
    assert_eq!(browser.get("/assets/..%2Fmod.rs").status, 404);
}

#[test]
fn without_the_console_there_are_no_pages() {
    let store = module();
    let countd = start(&store, &format!("{CONFIG}[http]\nconsole = false\n"));
    let browser = Browser::new(countd.port());
    for path in PAGES
        .iter()
        .chain(&["/admin/login", "/assets/base.css", "/demo"])
    {
        assert_eq!(browser.get(path).status, 404, "{path}");
    }
}
