//! An HTTP client for countd's API.

use countint_tests::env::deadline;
use serde_json::{Value as Json, json};

/// A client of one countd.
#[derive(Clone)]
pub struct Api {
    agent: ureq::Agent,
    port: u16,
    authorization: String,
}

impl Api {
    /// A client of the process that listens on this port. It waits longer than the process does by the limits of tests.
    pub fn new(port: u16) -> Api {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(deadline(120)))
            .build();
        Api {
            agent: config.into(),
            port,
            authorization: String::new(),
        }
    }

    /// The same client with this `Authorization` header.
    pub fn authorized(&self, authorization: &str) -> Api {
        Api {
            authorization: authorization.to_owned(),
            ..self.clone()
        }
    }

    /// The port of the process.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Posts JSON. Returns the status and the body.
    pub fn try_post(&self, path: &str, body: &str) -> Result<(u16, String), String> {
        self.try_send(path, "application/json", body)
    }

    /// Posts a body with a content type. Returns the status and the body.
    pub fn try_send(
        &self,
        path: &str,
        content_type: &str,
        body: &str,
    ) -> Result<(u16, String), String> {
        let sent = self
            .agent
            .post(self.url(path))
            .header("authorization", &self.authorization)
            .header("content-type", content_type)
            .send(body);
        status_and_body(sent)
    }

    /// Posts JSON. Returns the status and the JSON.
    #[track_caller]
    pub fn post(&self, path: &str, body: &Json) -> (u16, Json) {
        let (status, text) = self.try_post(path, &body.to_string()).expect("a response");
        (
            status,
            serde_json::from_str(&text).unwrap_or(Json::String(text)),
        )
    }

    /// Puts JSON. Returns the status and the body.
    pub fn try_put(&self, path: &str, body: &str) -> Result<(u16, String), String> {
        let sent = self
            .agent
            .put(self.url(path))
            .header("authorization", &self.authorization)
            .header("content-type", "application/json")
            .send(body);
        status_and_body(sent)
    }

    /// Puts JSON. Returns the status and the JSON.
    #[track_caller]
    pub fn put(&self, path: &str, body: &Json) -> (u16, Json) {
        let (status, text) = self.try_put(path, &body.to_string()).expect("a response");
        (
            status,
            serde_json::from_str(&text).unwrap_or(Json::String(text)),
        )
    }

    /// Deletes a path. Returns the status and the body.
    pub fn try_delete(&self, path: &str) -> Result<(u16, String), String> {
        let sent = self
            .agent
            .delete(self.url(path))
            .header("authorization", &self.authorization)
            .call();
        status_and_body(sent)
    }

    /// Deletes a path. Returns the status and the JSON.
    #[track_caller]
    pub fn delete(&self, path: &str) -> (u16, Json) {
        let response = self.request_text("DELETE", path, &[], "");
        (response.status, response.json)
    }

    /// Gets a path. Returns the status and the body.
    pub fn try_get(&self, path: &str) -> Result<(u16, String), String> {
        let sent = self
            .agent
            .get(self.url(path))
            .header("authorization", &self.authorization)
            .call();
        status_and_body(sent)
    }

    /// Gets a path. Returns the status and the JSON.
    #[track_caller]
    pub fn get(&self, path: &str) -> (u16, Json) {
        let (status, text) = self.try_get(path).expect("a response");
        (
            status,
            serde_json::from_str(&text).unwrap_or(Json::String(text)),
        )
    }

    /// Sends a GET, or a POST if there is a body, with more headers.
    #[track_caller]
    pub fn request(&self, path: &str, headers: &[(&str, &str)], body: Option<&Json>) -> Response {
        let mut request = ureq::http::Request::builder()
            .uri(self.url(path))
            .header("authorization", &self.authorization);
        if body.is_some() && headers.iter().all(|(name, _)| *name != "content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let method = if body.is_some() { "POST" } else { "GET" };
        let body = body.map_or(String::new(), Json::to_string);
        self.run(request.method(method).body(body).expect("a request"))
    }

    /// Sends a text with this method and these headers, and no content type by default.
    #[track_caller]
    pub fn request_text(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response {
        let mut request = ureq::http::Request::builder()
            .uri(self.url(path))
            .method(method)
            .header("authorization", &self.authorization);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.run(request.body(body.to_owned()).expect("a request"))
    }

    #[track_caller]
    fn run(&self, request: ureq::http::Request<String>) -> Response {
        let mut response = self.agent.run(request).expect("a response");
        let text = response.body_mut().read_to_string().expect("a text");
        let headers = response.headers().clone();
        let retry_after = headers.get("retry-after");
        Response {
            status: response.status().as_u16(),
            retry_after: retry_after
                .map(|value| value.to_str().expect("a text").parse().expect("seconds")),
            json: serde_json::from_str(&text).unwrap_or(Json::String(text)),
            headers,
        }
    }

    /// The JSON of a response whose status must be 200.
    #[track_caller]
    pub fn ok(&self, (status, json): (u16, Json)) -> Json {
        assert_eq!(status, 200, "{json}");
        json
    }

    /// Sends an action, which must succeed.
    #[track_caller]
    pub fn act(&self, metric: &str, action: Json) -> Json {
        self.ok(self.post(&format!("/action/{metric}"), &action))
    }

    /// The counters of a note.
    #[track_caller]
    pub fn counts(&self, eid: u64) -> Json {
        self.ok(self.get(&format!("/counter/note/{eid}")))["counts"].clone()
    }

    /// The counters of a user.
    #[track_caller]
    pub fn user(&self, uid: u64) -> Json {
        self.ok(self.get(&format!("/relation/counter?uid={uid}")))["counts"].clone()
    }
}

/// The value of a metric, or 0 if it is not exposed. `name` includes the labels.
#[track_caller]
pub fn metric(api: &Api, name: &str) -> u64 {
    let (_, text) = api.get("/metrics");
    let mut lines = text.as_str().expect("a text").lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let number = value.map(|value| value.parse::<f64>().expect("a number"));
    number.unwrap_or(0.0) as u64
}

/// A response, with its `Retry-After` header.
pub struct Response {
    /// Its status.
    pub status: u16,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// All headers.
    pub headers: ureq::http::HeaderMap,
    /// Its body.
    pub json: Json,
}

impl Response {
    /// A header; empty if it is missing.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().expect("a text"))
    }
}

/// The body of an action on a note.
pub fn on_note(eid: u64, uid: u64) -> Json {
    json!({ "etype": "note", "eid": eid, "uid": uid })
}

/// An action with more fields.
pub fn with(mut action: Json, more: Json) -> Json {
    let (Some(action_fields), Json::Object(more)) = (action.as_object_mut(), more) else {
        panic!("two objects");
    };
    action_fields.extend(more);
    action
}

/// Sends a request, which must be refused with this status and code.
#[track_caller]
pub fn assert_refused(api: &Api, path: &str, body: &Json, status: u16, code: &str) {
    let (found, response) = api.post(path, body);
    assert_eq!(
        (found, response["code"].as_str()),
        (status, Some(code)),
        "{path} {body}: {response}"
    );
}

/// The status and the body of a response, or the error.
fn status_and_body(
    sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> Result<(u16, String), String> {
    let mut response = sent.map_err(|error| error.to_string())?;
    let body = response.body_mut().read_to_string();
    let body = body.map_err(|error| error.to_string())?;
    Ok((response.status().as_u16(), body))
}
