//! Traces of OpenTelemetry, with a collector that keeps what it is sent.

use crate::support::{Countd, Settings, metric, on_note, run, wait_until_drained};
use countint_tests::{Server, wait_until};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// A request to the collector: its head in lower case, and what it has sent.
struct Received {
    head: String,
    request: ExportTraceServiceRequest,
}

/// A collector, which takes everything.
#[derive(Clone)]
struct Collector {
    port: u16,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Collector {
    fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let received = Arc::default();
        let collector = Collector { port, received };
        let serving = collector.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serving.serve(stream);
            }
        });
        collector
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream);
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.to_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
            if line.trim().is_empty() {
                break;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("the body");
        let request = ExportTraceServiceRequest::decode(&*body).expect("protobuf");
        let mut received = self.received.lock().expect("a collector");
        received.push(Received { head, request });
        let response =
            "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        let _ = reader.get_mut().write_all(response.as_bytes());
    }

    fn spans(&self) -> Vec<Span> {
        let received = self.received.lock().expect("a collector");
        let requests = received.iter().map(|received| &received.request);
        let resources = requests.flat_map(|request| &request.resource_spans);
        let scopes = resources.flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }

    /// Waits for a span.
    fn wait_for(&self, matches: impl Fn(&Span) -> bool) -> Span {
        let mut found = None;
        wait_until("the collector has a span", || {
            found = self.spans().into_iter().find(&matches);
            found.is_some()
        });
        found.expect("it was found")
    }

    fn settings(&self, more: &str) -> String {
        format!(
            "[tracing]\notlp_endpoint = \"http://127.0.0.1:{}\"\n{more}\n",
            self.port
        )
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An attribute as text.
fn text(attributes: &[KeyValue], name: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == name)?;
    match found.value.clone()?.value? {
        any_value::Value::StringValue(text) => Some(text),
        any_value::Value::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}

fn attribute(span: &Span, name: &str) -> Option<String> {
    text(&span.attributes, name)
}

/// Sends a request with these headers, and returns the response.
fn send(port: u16, request: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("countd listens");
    let length = body.len();
    let request = format!(
        "{request} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    response
}

#[test]
fn a_request_continues_the_trace_of_its_client_down_to_redis() {
    let (server, collector) = (Server::start(), Collector::start());
    let config = collector.settings("service_name = \"counts\"\notlp_headers = \"x-tenant=7\"");
    let mut countd = Countd::start(&server, &config);
    let body = on_note(7, 1).to_string();
    let parent = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n");
    let response = send(countd.port(), "POST /action/like", &parent, &body);
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert!(
        response
            .to_lowercase()
            .contains(&format!("x-trace-id: {TRACE}")),
        "{response}"
    );
    let request = collector.wait_for(|span| span.name == "POST /action/{metric}");
    assert_eq!(hex(&request.trace_id), TRACE);
    assert_eq!(hex(&request.parent_span_id), PARENT);
    assert_eq!(request.kind, SpanKind::Server as i32);
    for (name, value) in [
        ("http.request.method", "POST"),
        ("http.route", "/action/{metric}"),
        ("http.response.status_code", "200"),
        ("url.path", "/action/like"),
        ("url.scheme", "http"),
    ] {
        assert_eq!(attribute(&request, name).as_deref(), Some(value), "{name}");
    }
    assert!(request.end_time_unix_nano >= request.start_time_unix_nano);
    let call = collector.wait_for(|span| span.parent_span_id == request.span_id);
    assert_eq!(
        (hex(&call.trace_id).as_str(), call.kind),
        (TRACE, SpanKind::Client as i32)
    );
    assert_eq!(attribute(&call, "db.system.name").as_deref(), Some("redis"));
    let operation = attribute(&call, "db.operation.name").expect("an operation");
    assert_eq!(call.name, operation);
    // The commit is a trace of its own, with its calls.
    wait_until_drained(&server, 1024);
    let commit = collector.wait_for(|span| span.name == "commit");
    assert!(commit.parent_span_id.is_empty() && hex(&commit.trace_id) != TRACE);
    assert_eq!(
        attribute(&commit, "messaging.batch.message_count").as_deref(),
        Some("1")
    );
    let of_commit = collector.wait_for(|span| span.parent_span_id == commit.span_id);
    assert_eq!(of_commit.trace_id, commit.trace_id);
    // What waits is sent at the end.
    let last = send(countd.port(), "GET /counter/note/8", "", "");
    assert!(last.starts_with("HTTP/1.1 200"), "{last}");
    countd.stop();
    let read = collector.wait_for(|span| span.name == "GET /counter/{etype}/{eid}");
    let trace = format!("x-trace-id: {}", hex(&read.trace_id));
    assert!(
        read.parent_span_id.is_empty() && last.to_lowercase().contains(&trace),
        "{last}"
    );
    let received = collector.received.lock().expect("a collector");
    for Received { head, request } in received.iter() {
        assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
        assert!(
            head.contains("content-type: application/x-protobuf"),
            "{head}"
        );
        assert!(head.contains("x-tenant: 7"), "{head}");
        let resource = request.resource_spans[0]
            .resource
            .as_ref()
            .expect("a resource");
        assert_eq!(
            text(&resource.attributes, "service.name").as_deref(),
            Some("counts")
        );
        assert!(text(&resource.attributes, "service.instance.id").is_some());
    }
}

#[test]
fn clients_and_the_ratio_decide_what_is_recorded() {
    let (server, collector) = (Server::start(), Collector::start());
    let config = collector.settings("sample_ratio = 0");
    let mut countd = Countd::start(&server, &config);
    let get = |headers: &str| send(countd.port(), "GET /counter/note/7", headers, "");
    get("");
    get(&format!("traceparent: 00-{TRACE}-{PARENT}-00\r\n"));
    let other = TRACE.replace('4', "5");
    get(&format!(
        "traceparent: 00-{other}-{PARENT}-01\r\nx-trace-id: mine\r\n"
    ));
    let request = collector.wait_for(|span| span.kind == SpanKind::Server as i32);
    assert_eq!(
        attribute(&request, "countd.trace_id").as_deref(),
        Some("mine")
    );
    countd.stop();
    for span in collector.spans() {
        assert_eq!(hex(&span.trace_id), other, "{span:?}");
    }
}

#[test]
fn failed_requests_are_marked() {
    let (server, collector) = (Server::start(), Collector::start());
    let config = collector.settings("");
    let countd = Countd::start(&server, &config);
    let missing = send(countd.port(), "GET /missing", "", "");
    assert!(missing.starts_with("HTTP/1.1 404"), "{missing}");
    let span =
        collector.wait_for(|span| attribute(span, "url.path").as_deref() == Some("/missing"));
    // A route that does not exist is no failure of the server, and its path is not a name.
    assert_eq!(
        (span.name.as_str(), attribute(&span, "error.type")),
        ("GET", None)
    );
    assert_eq!(
        attribute(&span, "http.response.status_code").as_deref(),
        Some("404")
    );
}

#[test]
fn requests_go_on_without_a_collector() {
    let server = Server::start();
    // Nothing listens at this port any more.
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("an address").port()
    };
    let config = format!("[tracing]\notlp_endpoint = \"http://127.0.0.1:{port}\"\n");
    let countd = Countd::start(&server, &config);
    let api = countd.api();
    for user in 0..20 {
        api.ok(api.post("/action/like", &on_note(7, user)));
    }
    wait_until("spans are lost", || {
        metric(&api, "countd_spans_total{result=\"failed\"}") > 0
    });
    assert!(countd.log().contains("the collector does not take spans"));
    api.ok(api.post("/action/like", &on_note(8, 1)));
    assert!(metric(&api, "countd_events_appended_total") > 0);
}

#[test]
fn headers_are_read_from_a_file_and_wrong_settings_are_refused() {
    let (server, collector) = (Server::start(), Collector::start());
    let dir = countint_tests::env::TempDir::new();
    let file = dir.path().join("headers");
    std::fs::write(&file, "authorization=Bearer secret\n").expect("written");
    let (command, config) = ("serve", collector.settings(""));
    let settings = Settings {
        command,
        config: &config,
    };
    let variable: OsString = "COUNTD_TRACING__OTLP_HEADERS_FILE".into();
    let countd = Countd::with_environment(&server, &settings, vec![(variable, file.into())]);
    send(countd.port(), "GET /healthz", "", "");
    collector.wait_for(|span| span.name == "GET /healthz");
    let received = collector.received.lock().expect("a collector");
    assert!(
        received[0].head.contains("authorization: bearer secret"),
        "{}",
        received[0].head
    );
    for config in [
        "[tracing]\notlp_endpoint = \"http://127.0.0.1:1\"\notlp_ca_file = \"/missing.pem\"\nsample_ratio = 2\n",
        "[tracing]\notlp_endpoint = \"https://127.0.0.1:1\"\notlp_ca_file = \"/missing.pem\"\n",
    ] {
        let refused = run(&server, config, &["serve"]);
        let errors = String::from_utf8_lossy(&refused.stderr);
        assert!(
            !refused.status.success() && errors.contains("tracing."),
            "{errors}"
        );
    }
}
