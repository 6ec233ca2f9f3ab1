//! The request in the log lines that it causes.
//!
//! A tracing span would format its fields for each request, although most requests log nothing: an eighth of the instructions of a single
//! read. Instead, a task-local variable has what identifies the request, and a line that is written within the request gets it.

use super::telemetry::RequestIds;
use axum::extract::Request;
use axum::http::{Method, Uri};
use serde::Serialize;
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

tokio::task_local! {
    static REQUEST: RefCell<LoggedRequest>;
}

/// What log lines contain of a request.
pub struct LoggedRequest {
    trace_id: Arc<str>,
    request_id: Arc<str>,
    method: Method,
    uri: Uri,
    /// The name of its token.
    token: Option<String>,
}

/// The fields of a log line.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Fields<'a> {
    name: &'static str,
    trace_id: &'a str,
    request_id: &'a str,
    method: &'a str,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
}

impl LoggedRequest {
    /// A request with these IDs.
    pub fn new(ids: &RequestIds, request: &Request) -> LoggedRequest {
        LoggedRequest {
            trace_id: Arc::clone(&ids.trace),
            request_id: Arc::clone(&ids.request),
            method: request.method().clone(),
            uri: request.uri().clone(),
            token: None,
        }
    }

    /// Runs a future. Log lines that are written in it have the fields of the request.
    pub fn scope<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        REQUEST.scope(RefCell::new(self), future)
    }

    fn fields(&self) -> Fields<'_> {
        Fields {
            name: "request",
            trace_id: &self.trace_id,
            request_id: &self.request_id,
            method: self.method.as_str(),
            path: self.uri.path(),
            token: self.token.as_deref(),
        }
    }
}

/// Adds the name of the token to the fields of the current request.
pub fn record_token(name: &str) {
    // Tokens are verified only within a request.
    let _ = REQUEST.try_with(|request| request.borrow_mut().token = Some(name.to_owned()));
}

/// The format of log lines: that of `F`, and the fields of the request.
pub struct RequestFormat<F> {
    /// The format of events. It decides whether lines have ANSI colors.
    pub events: F,
    /// Whether lines are JSON objects.
    pub is_json: bool,
}

impl<S, N, F> FormatEvent<S, N> for RequestFormat<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        let to_line = Writer::new(&mut line);
        self.events.format_event(context, to_line, event)?;
        // Outside a request there is nothing to add.
        let _ = REQUEST.try_with(|request| {
            add_fields(&mut line, &request.borrow().fields(), self.is_json);
        });
        writer.write_str(&line)
    }
}

/// Adds the fields of a request to the end of a line.
fn add_fields(line: &mut String, fields: &Fields<'_>, is_json: bool) {
    let end = line.trim_end().len();
    line.truncate(end);
    match (is_json, line.strip_suffix('}')) {
        (true, Some(object)) => {
            line.truncate(object.len());
            // Strings can always be serialized.
            let span = serde_json::to_string(fields).unwrap_or_default();
            line.push_str(&format!(",\"span\":{span},\"spans\":[{span}]}}"));
        }
        _ => {
            let Fields {
                trace_id,
                request_id,
                method,
                path,
                ..
            } = fields;
            line.push_str(&format!(
                " traceId={trace_id} requestId={request_id} method={method} path={path:?}"
            ));
            if let Some(token) = fields.token {
                line.push_str(&format!(" token={token:?}"));
            }
        }
    }
    line.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use std::io::{self, Write};
    use std::sync::Mutex;
    use tracing_subscriber::fmt::MakeWriter;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("lines").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Lines {
        type Writer = Lines;

        fn make_writer(&self) -> Lines {
            self.clone()
        }
    }

    impl Lines {
        fn take(&self) -> String {
            let bytes = std::mem::take(&mut *self.0.lock().expect("lines"));
            String::from_utf8(bytes).expect("UTF-8")
        }
    }

    fn request() -> LoggedRequest {
        let request = Request::get("/counter/note/1?a=%22").body(Body::empty());
        let ids = RequestIds {
            trace: "t-1".into(),
            request: "r-1".into(),
        };
        LoggedRequest::new(&ids, &request.expect("a request"))
    }

    async fn log_in_request() {
        tracing::warn!("before");
        let logged = async {
            record_token("feed \"x\"");
            tracing::warn!(status = 500, "request failed");
        };
        request().scope(logged).await;
        record_token("none");
        tracing::warn!("after");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn json_lines_of_a_request_have_its_fields() {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::fmt().with_writer(lines.clone()).json();
        let format = tracing_subscriber::fmt::format().json().flatten_event(true);
        let subscriber = subscriber.event_format(RequestFormat {
            events: format,
            is_json: true,
        });
        let guard = tracing::subscriber::set_default(subscriber.finish());
        log_in_request().await;
        drop(guard);
        let lines = lines.take();
        let parse = |line| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
        let lines: Vec<_> = lines.lines().map(parse).collect();
        assert_eq!(lines.len(), 3);
        let span = &lines[1]["span"];
        let expected = serde_json::json!({
            "name": "request", "traceId": "t-1", "requestId": "r-1", "method": "GET", "path": "/counter/note/1", "token": "feed \"x\"",
        });
        assert_eq!((span, &lines[1]["spans"][0]), (&expected, &expected));
        assert_eq!(
            (&lines[1]["status"], &lines[1]["message"]),
            (&500.into(), &"request failed".into())
        );
        assert!(lines[0]["span"].is_null() && lines[2]["span"].is_null());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn text_lines_of_a_request_have_its_fields() {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::fmt().with_writer(lines.clone());
        let subscriber = subscriber.with_ansi(false).event_format(RequestFormat {
            events: tracing_subscriber::fmt::format(),
            is_json: false,
        });
        let guard = tracing::subscriber::set_default(subscriber.finish());
        log_in_request().await;
        drop(guard);
        let text = lines.take();
        let line = text.lines().nth(1).expect("a line");
        let fields = "status=500 traceId=t-1 requestId=r-1 method=GET path=\"/counter/note/1\" token=\"feed \\\"x\\\"\"";
        assert!(line.ends_with(fields), "{line}");
        assert!(text.lines().all(|line| line.contains("WARN")) && text.lines().count() == 3);
    }
}
