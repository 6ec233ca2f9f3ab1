//! Login: a token with the right `admin` begins a session.

use super::browser::{Browser, SAME_ORIGIN, encode};
use super::{CONFIG, start};
use crate::support::metric;
use crate::support::stores::module;
use countint_tests::wait_until;

const ADMIN: &str = "a-token-of-operators";
const READER: &str = "a-token-of-a-reader";

fn config() -> String {
    format!(
        "{CONFIG}[auth]\ntokens = [{{ name = \"ops\", token = \"{ADMIN}\", rights = [\"admin\"] }}, {{ name = \"reader\", token = \"{READER}\", rights = [\"read\", \"write\"] }}]\n"
    )
}

#[test]
fn a_session_needs_a_token_with_the_right_admin() {
    let store = module();
    let countd = start(&store, &config());
    let browser = Browser::new(countd.port());
    for path in [
        "/admin",
        "/admin/dead",
        "/admin/figures",
        "/admin/audit?eid=1",
    ] {
        let page = browser.get(path);
        assert_eq!(
            (page.status, page.header("location")),
            (303, "/admin/login"),
            "{path}"
        );
        assert!(browser.cookie().is_empty());
    }
    let form = browser.page("/admin/login");
    form.assert_has(&["type=\"password\"", "name=\"token\""]);
    let unknown = browser.submit("/admin/login", &[("token", "no-such-token-at-all")]);
    assert_eq!(unknown.status, 401);
    assert!(!unknown.text.contains("no-such-token"), "{}", unknown.text);
    assert_eq!(browser.submit("/admin/login", &[]).status, 401);
    let forbidden = browser.submit("/admin/login", &[("token", READER)]);
    assert_eq!(forbidden.status, 403);
    forbidden.assert_has(&["does not have the right admin"]);
    assert!(browser.cookie().is_empty());
    // A bearer token is none of the console's.
    let bearer = format!("Bearer {ADMIN}");
    let page = browser.send("GET", "/admin", &[("authorization", &bearer)], "");
    assert_eq!(page.status, 303);
    let login = browser.submit("/admin/login", &[("token", ADMIN)]);
    assert_eq!((login.status, login.header("location")), (303, "/admin"));
    let cookie = login.header("set-cookie");
    assert!(
        cookie.ends_with("; Path=/admin; HttpOnly; SameSite=Strict"),
        "{cookie}"
    );
    assert!(!cookie.contains(ADMIN));
    let overview = browser.page("/admin");
    overview.assert_has(&["ops"]);
    assert!(!overview.text.contains(ADMIN));
    let api = countd.api().authorized(&bearer);
    let uses = metric(&api, "countd_token_requests_total{token=\"ops\"}");
    assert!(uses >= 2, "{uses}");
    let own = browser.cookie();
    browser.set_cookie("countd_console=0000");
    assert_eq!(browser.get("/admin").status, 303);
    browser.set_cookie(&own);
    let logout = [("form_token", overview.form_token())];
    let out = browser.submit("/admin/logout", &logout);
    assert_eq!((out.status, out.header("location")), (303, "/admin/login"));
    browser.set_cookie(&own);
    assert_eq!(browser.get("/admin").status, 303, "the session has ended");
    let late = browser.submit("/admin/logout", &logout);
    assert_eq!(late.status, 403);
    assert!(!countd.log().contains(ADMIN), "{}", countd.log());
}

#[test]
fn the_cookie_of_a_browser_with_tls_is_secure() {
    let store = module();
    let countd = start(&store, &config());
    let browser = Browser::new(countd.port());
    let host = format!("127.0.0.1:{}", countd.port());
    let body = encode(&[("token", ADMIN)]);
    let login = |origin: &str| browser.send("POST", "/admin/login", &[("origin", origin)], &body);
    let tls = login(&format!("https://{host}"));
    assert!(tls.header("set-cookie").ends_with("; Secure"));
    let plain = login(&format!("http://{host}"));
    assert_eq!(plain.status, 303);
    assert!(!plain.header("set-cookie").contains("Secure"));
    assert_eq!(login("https://elsewhere.example").status, 403);
    let no_form = [SAME_ORIGIN, ("content-type", "application/json")];
    let browser = Browser::new(countd.port());
    let refused = browser.send("POST", "/admin/login", &no_form, "{}");
    assert_ne!(refused.status, 303, "{}", refused.text);
}

#[test]
fn a_session_ends_when_its_token_is_removed() {
    let store = module();
    let countd = start(&store, &config());
    let browser = Browser::new(countd.port());
    browser.submit("/admin/login", &[("token", ADMIN)]);
    browser.page("/admin").assert_has(&["ops"]);
    countd.configure(&config().replace(ADMIN, "another-token-of-operators"));
    wait_until("the session has ended", || {
        browser.get("/admin").status == 303
    });
    let login = browser.submit("/admin/login", &[("token", ADMIN)]);
    assert_eq!(login.status, 401);
    let login = browser.submit("/admin/login", &[("token", "another-token-of-operators")]);
    assert_eq!(login.status, 303);
}
