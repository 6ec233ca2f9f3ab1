//! What `countd top --url` reads from a countd: `/metrics` and `/hot`.

use super::options::TopCommand;
use crate::cli::error::CommandError;
use axum::body::Body;
use axum::http::{HeaderValue, Request, StatusCode, header};
use countd::http_client::HttpClient;
use countd::monitor::exposition::{buckets, sum, sum_with, value};
use futures_util::future::join;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// The time that a response may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The metrics of a process that are shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Service {
    /// Requests since it started.
    pub requests: f64,
    /// Requests with a status from 500 on.
    pub failures: f64,
    /// Events that requests have appended.
    pub appended: f64,
    /// Log entries that it has committed.
    pub applied: f64,
    /// Counters that it has corrected.
    pub corrections: f64,
    /// Counters that it has compared with their facts.
    pub compared: f64,
    /// Those of them that differed.
    pub differing: f64,
    /// Counters that differed in three rounds in a row.
    pub unconverged: f64,
    /// The age of the oldest uncommitted log entry; `None` if the process does not know it.
    pub lag_seconds: Option<f64>,
    /// Resident bytes.
    pub memory: Option<f64>,
}

impl Service {
    fn of(metrics: &str) -> Service {
        let differences = buckets(metrics, "countd_counter_difference");
        let compared: u64 = differences.iter().map(|(_, count)| count).sum();
        let equal = differences.iter().filter(|(bound, _)| bound == "0");
        let equal: u64 = equal.map(|(_, count)| count).sum();
        Service {
            requests: sum(metrics, "countd_http_requests_total"),
            failures: sum_with(metrics, "countd_http_requests_total", "status=\"5"),
            appended: sum(metrics, "countd_events_appended_total"),
            applied: sum(metrics, "countd_events_applied_total"),
            corrections: sum(metrics, "countd_corrections_total"),
            compared: compared as f64,
            differing: compared.saturating_sub(equal) as f64,
            unconverged: sum(metrics, "countd_unconverged"),
            lag_seconds: value(metrics, "countd_lag_seconds"),
            memory: value(metrics, "process_resident_memory_bytes"),
        }
    }
}

/// A hot entity, as `GET /hot` lists it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HotRow {
    pub etype: String,
    pub eid: String,
    /// Reads per second.
    pub reads: f64,
    /// Writes per second.
    pub writes: f64,
}

/// The response of `GET /hot`.
#[derive(Deserialize)]
struct Hot {
    items: Vec<HotRow>,
}

/// A countd.
pub struct ServiceClient {
    client: HttpClient,
    token: Option<HeaderValue>,
}

impl ServiceClient {
    /// The countd of `--url`. `None` without the option.
    ///
    /// # Errors
    /// The URL or the token is invalid, or a file cannot be read.
    pub fn of(options: &TopCommand) -> Result<Option<ServiceClient>, CommandError> {
        let Some(url) = &options.url else {
            return Ok(None);
        };
        let client = HttpClient::new(url, options.ca_file.as_deref(), TIMEOUT);
        let client = client.map_err(|error| CommandError::Unsuccessful(error.to_string()))?;
        let token = options.token_file.as_deref().map(read_token).transpose()?;
        Ok(Some(ServiceClient { client, token }))
    }

    /// Reads its metrics, and its hot entities; those are `None` if it does not list any, because it only consumes.
    pub async fn read(
        &self,
    ) -> (
        Result<Option<Service>, String>,
        Result<Option<Vec<HotRow>>, String>,
    ) {
        let (metrics, hot) = join(self.get("/metrics"), self.get("/hot")).await;
        let metrics = metrics.and_then(|(status, body)| match status {
            StatusCode::OK => Ok(Some(Service::of(&body))),
            status => Err(format!("/metrics: {status}")),
        });
        let hot = hot.and_then(|(status, body)| match status {
            StatusCode::OK => match serde_json::from_str(&body) {
                Ok(Hot { items }) => Ok(Some(items)),
                Err(error) => Err(format!("/hot: {error}")),
            },
            StatusCode::NOT_FOUND => Ok(None),
            status => Err(format!("/hot: {status}")),
        });
        (metrics, hot)
    }

    async fn get(&self, path: &str) -> Result<(StatusCode, String), String> {
        let failed = |error: &dyn std::fmt::Display| format!("{path}: {error}");
        let path_and_base = format!("{}{path}", self.client.path());
        let mut request = Request::get(path_and_base)
            .body(Body::empty())
            .map_err(|error| failed(&error))?;
        if let Some(token) = &self.token {
            let headers = request.headers_mut();
            headers.insert(header::AUTHORIZATION, token.clone());
        }
        let response = self.client.send(request).await;
        let (status, body) = response.map_err(|error| failed(&error))?;
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }
}

fn read_token(file: &Path) -> Result<HeaderValue, CommandError> {
    let failed =
        |problem: String| CommandError::Unsuccessful(format!("{}: {problem}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    let value = HeaderValue::from_str(&format!("Bearer {}", text.trim()));
    let mut value = value.map_err(|_| failed("not a token".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read() {
        let metrics = "countd_http_requests_total{route=\"/a\",method=\"GET\",status=\"200\"} 7\n\
            countd_http_requests_total{route=\"/a\",method=\"GET\",status=\"503\"} 2\n\
            countd_events_appended_total 5\ncountd_events_applied_total 4\n\
            countd_corrections_total{source=\"check\"} 1\ncountd_corrections_total{source=\"user\"} 2\n\
            countd_counter_difference_bucket{source=\"reconcile\",le=\"0\"} 8\n\
            countd_counter_difference_bucket{source=\"reconcile\",le=\"1\"} 9\n\
            countd_counter_difference_bucket{source=\"reconcile\",le=\"+Inf\"} 11\n\
            countd_unconverged 6\nprocess_resident_memory_bytes 1024\n";
        let expected = Service {
            requests: 9.0,
            failures: 2.0,
            appended: 5.0,
            applied: 4.0,
            corrections: 3.0,
            compared: 11.0,
            differing: 3.0,
            unconverged: 6.0,
            lag_seconds: None,
            memory: Some(1024.0),
        };
        assert_eq!(Service::of(metrics), expected);
    }

    #[test]
    fn hot_entities_are_those_of_the_api() {
        let body = r#"{"items":[{"etype":"note","eid":"7","rate":3.5,"reads":3.0,"writes":0.5}]}"#;
        let Hot { items } = serde_json::from_str(body).expect("a response");
        let expected = HotRow {
            etype: "note".to_owned(),
            eid: "7".to_owned(),
            reads: 3.0,
            writes: 0.5,
        };
        assert_eq!(items, [expected]);
    }
}
