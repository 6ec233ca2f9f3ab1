//! The requests of a client, repeated until they succeed.

use crate::support::api::Api;
use crate::support::pause::pause;
use countint_tests::env::deadline;
use serde_json::Value as Json;
use std::time::Instant;

/// A request of a client.
pub(super) enum Request {
    /// Actions: path, body, and their number.
    Actions(String, String, u64),
    /// An envelope.
    Events(String),
    /// An author of a note.
    Put { path: String, body: String },
    /// The path of a note to erase.
    Erase(String),
}

impl Request {
    /// A request for one action, or for many.
    pub(super) fn actions(actions: &[Json]) -> Request {
        if let [action] = actions {
            let mut action = action.clone();
            let metric = action["metric"].take();
            action.as_object_mut().expect("an object").remove("metric");
            let path = format!("/api/v1/action/{}", metric.as_str().expect("a name"));
            return Request::Actions(path, action.to_string(), 1);
        }
        let lines: Vec<String> = actions.iter().map(Json::to_string).collect();
        Request::Actions(
            "/actions".to_owned(),
            lines.join("\n"),
            actions.len() as u64,
        )
    }

    /// The number of actions.
    pub(super) fn len(&self) -> u64 {
        match self {
            Request::Actions(_, _, count) => *count,
            Request::Events(_) | Request::Put { .. } | Request::Erase(_) => 1,
        }
    }

    /// Sends it until it succeeds as a whole. Returns how often it was sent.
    pub(super) fn send(&self, api: &Api) -> u64 {
        for times in 1..=3_000 {
            let response = match self {
                Request::Actions(path, body, _) => api.try_post(path, body),
                Request::Events(body) => api.try_post("/events", body),
                Request::Put { path, body } => api.try_put(path, body),
                Request::Erase(path) => api.try_delete(path),
            };
            if let Ok((status, response)) = response
                && self.has_succeeded(status, &response)
            {
                if let Request::Erase(_) = self {
                    wait_for_job(api, &response);
                }
                return times;
            }
            pause();
        }
        panic!("retries exhausted");
    }

    /// Whether all of it was done. Fails if a part of it can never be.
    fn has_succeeded(&self, status: u16, response: &str) -> bool {
        assert!(!response.contains("author_mismatch"), "{response}");
        if !matches!(status, 200 | 202) {
            return false;
        }
        let Request::Actions(_, _, count) = self else {
            return true;
        };
        let lines = |part: &str| response.lines().filter(|line| line.contains(part)).count() as u64;
        let failed = lines("\"unavailable\"") + lines("\"not_acknowledged\"");
        assert_eq!(lines("\"changed\"") + failed, *count, "{response}");
        failed == 0
    }
}

/// How long a job may take, in seconds: while processes are killed it begins again and again, and beside other tests it gets little of the cores.
const JOB_LIMIT: u64 = 400;

/// Waits until a job has ended. Fails when it does not.
fn wait_for_job(api: &Api, started: &str) {
    let job: Json = serde_json::from_str(started).expect("a job");
    let path = format!("/jobs/{}", job["id"].as_str().expect("an ID"));
    let (mut last, limit) = (String::new(), Instant::now() + deadline(JOB_LIMIT));
    while !last.contains(r#""state":"done""#) {
        assert!(Instant::now() < limit, "the job does not end: {last}");
        if let Ok((status, text)) = api.try_get(&path) {
            assert_ne!(status, 404, "{text}");
            last = text;
        }
        pause();
    }
}
