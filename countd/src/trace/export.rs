//! Sends spans to a collector: OTLP over HTTP, in protobuf.

use super::queue::{Message, count};
use crate::domain::config::{ConfigError, TracingConfig};
use crate::http_client::{HttpClient, HttpClientError};
use axum::body::{Body, Bytes};
use hyper::http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, header};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;
use prost::Message as _;
use std::path::Path;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};

/// The number of spans of a request.
const MAX_BATCH: usize = 512;
/// How long a batch waits for more spans.
const LINGER: Duration = Duration::from_secs(2);
/// How long a response may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The delays before the attempts to send a batch again.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];
/// The path of the traces below that of a collector.
const TRACES: &str = "/v1/traces";

/// Why traces cannot be switched on.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The collector cannot be used.
    #[error("tracing.otlp_endpoint: {0}")]
    Endpoint(#[from] HttpClientError),
    /// A setting is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A header is not one of HTTP.
    #[error("tracing.otlp_headers: not a header of HTTP")]
    Header,
    /// Traces are on already.
    #[error("traces are on already")]
    Started,
}

/// Why a batch was not taken.
enum Failure {
    /// It may be taken later.
    Transient(String),
    Permanent(String),
}

/// The sender of spans.
pub struct Exporter {
    client: HttpClient,
    path: String,
    headers: HeaderMap,
    resource: ResourceAttributesWithSchema,
    /// Whether the last batch was not taken, which was logged.
    is_failing: bool,
}

impl Exporter {
    /// A sender to the collector of the settings.
    ///
    /// # Errors
    /// The URL, a header or a certificate is invalid.
    pub fn new(settings: &TracingConfig, resource: &Resource) -> Result<Exporter, TraceError> {
        let file = settings.otlp_ca_file.as_path();
        let authorities = (file != Path::new("")).then_some(file);
        let client = HttpClient::new(&settings.otlp_endpoint, authorities, TIMEOUT)?;
        let path = match client.path() {
            path if path.ends_with(TRACES) => path.to_owned(),
            path => format!("{path}{TRACES}"),
        };
        let mut headers = HeaderMap::new();
        for (name, value) in settings.headers()? {
            let name: HeaderName = name.parse().map_err(|_| TraceError::Header)?;
            let mut value: HeaderValue = value.parse().map_err(|_| TraceError::Header)?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let protobuf = HeaderValue::from_static("application/x-protobuf");
        headers.insert(header::CONTENT_TYPE, protobuf);
        Ok(Exporter {
            client,
            path,
            headers,
            resource: resource.into(),
            is_failing: false,
        })
    }

    /// Sends spans in batches until the queue is closed.
    pub async fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        let mut batch = Vec::new();
        while let Some(first) = messages.recv().await {
            let mut message = Some(first);
            let end = Instant::now() + LINGER;
            let mut flushed = None;
            while let Some(next) = message.take() {
                match next {
                    Message::Flush(done) => {
                        flushed = Some(done);
                        break;
                    }
                    Message::Span(span) => batch.push(*span),
                }
                if batch.len() < MAX_BATCH {
                    message = timeout_at(end, messages.recv()).await.ok().flatten();
                }
            }
            if !batch.is_empty() {
                self.export(std::mem::take(&mut batch)).await;
            }
            if let Some(done) = flushed {
                // The process that waits may have given up.
                let _ = done.send(());
            }
        }
    }

    /// Sends a batch, with retries. The spans of a batch that is not taken are lost.
    async fn export(&mut self, spans: Vec<SpanData>) {
        let sent = spans.len() as u64;
        let resource_spans = group_spans_by_resource_and_scope(spans, &self.resource);
        let request = ExportTraceServiceRequest { resource_spans };
        let body = Bytes::from(request.encode_to_vec());
        let mut delays = RETRY_DELAYS.into_iter();
        let reason = loop {
            match self.send(body.clone()).await {
                Ok(rejected) => {
                    let rejected = rejected.min(sent);
                    count("exported", sent - rejected);
                    count("failed", rejected);
                    if std::mem::take(&mut self.is_failing) {
                        tracing::info!("the collector takes spans again");
                    }
                    return;
                }
                Err(Failure::Permanent(reason)) => break reason,
                Err(Failure::Transient(reason)) => match delays.next() {
                    Some(delay) => sleep(delay).await,
                    None => break reason,
                },
            }
        };
        count("failed", sent);
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(
                reason,
                "the collector does not take spans; they are lost until it does"
            );
        }
    }

    /// Sends a request. Returns the number of spans that the collector has rejected.
    async fn send(&self, body: Bytes) -> Result<u64, Failure> {
        let mut request = Request::new(Body::from(body.clone()));
        *request.method_mut() = hyper::Method::POST;
        let path = self.path.parse();
        *request.uri_mut() =
            path.map_err(|_| Failure::Permanent("the path is invalid".to_owned()))?;
        *request.headers_mut() = self.headers.clone();
        let length = HeaderValue::from(body.len());
        request.headers_mut().insert(header::CONTENT_LENGTH, length);
        let sent = self.client.send(request).await;
        let (status, body) = sent.map_err(|error| Failure::Transient(error.to_string()))?;
        match status {
            status if status.is_success() => {
                // A body that cannot be decoded tells of no rejected spans.
                let response = ExportTraceServiceResponse::decode(body).unwrap_or_default();
                let rejected = response
                    .partial_success
                    .map_or(0, |part| part.rejected_spans);
                Ok(u64::try_from(rejected).unwrap_or(0))
            }
            // Those that the specification of OTLP permits to retry.
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Err(Failure::Transient(status.to_string())),
            status => Err(Failure::Permanent(status.to_string())),
        }
    }
}
