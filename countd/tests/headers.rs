//! Headers of all responses: request IDs, and cross-origin requests.

use crate::support::{Api, Countd, Response, Settings, set_schema};
use countint_tests::{Server, wait_until};

fn start(server: &Server, config: &str) -> Countd {
    set_schema(server, "");
    let command = "serve";
    Countd::with(server, &Settings { command, config })
}

fn preflight(api: &Api, origin: &str) -> Response {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", "POST"),
        (
            "access-control-request-headers",
            "authorization,content-type",
        ),
    ];
    api.request_text("OPTIONS", "/api/v1/action/like", &headers, "")
}

const ALLOWED: &str = "access-control-allow-origin";

#[test]
fn cross_origin_requests_are_off_by_default() {
    let server = Server::start();
    let countd = start(&server, "");
    let api = countd.api();
    let response = preflight(&api, "https://app.example.com");
    assert_eq!((response.status, response.header(ALLOWED)), (405, ""));
    let origin = [("origin", "https://app.example.com")];
    assert_eq!(api.request("/healthz", &origin, None).header(ALLOWED), "");
}

#[test]
fn configured_origins_may_send_requests() {
    let server = Server::start();
    let token = "tokens = [{ token = \"a-long-enough-token\", rights = [\"read\"] }]";
    let cors = "[http.cors]\norigins = [\"https://app.example.com\"]\nmax_age_seconds = 77\n";
    let countd = start(&server, &format!("[auth]\n{token}\n{cors}"));
    let api = countd.api();
    // A preflight request has no token.
    let response = preflight(&api, "https://app.example.com");
    assert_eq!(response.status, 200);
    assert_eq!(response.header(ALLOWED), "https://app.example.com");
    assert_eq!(response.header("access-control-max-age"), "77");
    let headers = response.header("access-control-allow-headers");
    for header in [
        "authorization",
        "content-type",
        "idempotency-key",
        "x-device-id",
    ] {
        assert!(headers.contains(header), "{headers}");
    }
    let methods = response.header("access-control-allow-methods");
    for method in ["GET", "POST", "PUT", "DELETE"] {
        assert!(methods.contains(method), "{methods}");
    }
    // The page can read the reason of an error, and the headers of all responses.
    let get = |origin| api.request("/counter/note/1", &[("origin", origin)], None);
    let response = get("https://app.example.com");
    assert_eq!(
        (response.status, response.header(ALLOWED)),
        (401, "https://app.example.com")
    );
    let exposed = response.header("access-control-expose-headers");
    assert!(
        exposed.contains("retry-after") && exposed.contains("x-request-id"),
        "{exposed}"
    );
    for other in ["https://evil.example.com", "http://app.example.com", "null"] {
        assert_eq!(preflight(&api, other).header(ALLOWED), "", "{other}");
        assert_eq!(get(other).header(ALLOWED), "", "{other}");
    }
    let countd = start(&server, "[http.cors]\norigins = [\"*\"]\n");
    assert_eq!(
        preflight(&countd.api(), "https://any.example").header(ALLOWED),
        "*"
    );
}

#[test]
fn request_ids_are_in_responses_and_log_lines() {
    let server = Server::start();
    let mut countd = start(&server, "");
    let api = countd.api();
    let ids = [("x-request-id", "r-17"), ("x-trace-id", "t-4")];
    let response = api.request("/counter/note/1", &ids, None);
    assert_eq!(response.header("x-request-id"), "r-17");
    assert_eq!(response.header("x-trace-id"), "t-4");
    let made = api.request("/nowhere", &[], None);
    let made = made.header("x-request-id").to_owned();
    let again = api.request("/nowhere", &[], None);
    assert!(made.len() == 32 && made != again.header("x-request-id"));
    // A failed request is logged.
    server.client().ok("SET schema:v1 damaged");
    drop(server);
    wait_until("a request fails", || {
        api.request("/readyz", &ids, None).status >= 500
    });
    let line = "\"requestId\":\"r-17\"";
    wait_until("it is logged", || countd.log().contains(line));
    countd.kill();
}
