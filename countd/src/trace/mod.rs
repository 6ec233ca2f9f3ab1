//! Traces of OpenTelemetry: spans of requests, of commands to Redis, of commits and of jobs, sent to a collector over OTLP.
//!
//! Off by default (`tracing.otlp_endpoint`). Then every function here reads one atomic pointer and does nothing else.
//!
//! Identifiers, sampling and the encoding are those of the OpenTelemetry SDK. The queue and the sender are ours: spans are sent by tasks of
//! the runtime and over the TLS that is linked already, and spans that are dropped are counted in a metric. Spans of `tracing` are not used,
//! because they format their fields for each request, even if nothing records them.

mod export;
mod queue;
mod span;
mod tracer;

pub use self::export::TraceError;
pub use self::span::{Span, scope};
pub use self::tracer::is_enabled;

use self::export::Exporter;
use self::queue::{Message, SpanQueue};
use crate::domain::config::TracingConfig;
use opentelemetry::trace::TracerProvider;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The number of spans that wait to be sent. Those that find it full are dropped.
const QUEUE: usize = 8_192;
/// How long a process that stops waits until its spans are sent.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// The traces of this process.
pub struct Traces {
    queue: mpsc::Sender<Message>,
}

impl Traces {
    /// Switches traces on, if there is a collector. Spans are sent by a task. Must be called in a Tokio runtime, once.
    ///
    /// # Errors
    /// The URL, a header or a certificate is invalid.
    pub fn start(settings: &TracingConfig) -> Result<Option<Traces>, TraceError> {
        if settings.otlp_endpoint.is_empty() {
            return Ok(None);
        }
        let resource = resource(settings);
        let exporter = Exporter::new(settings, &resource)?;
        let (queue, messages) = mpsc::channel(QUEUE);
        // A request of a client that has a trace is sampled as the client says.
        let sampler = Sampler::TraceIdRatioBased(settings.sample_ratio);
        let provider = SdkTracerProvider::builder()
            .with_span_processor(SpanQueue::new(queue.clone()))
            .with_sampler(Sampler::ParentBased(Box::new(sampler)))
            .with_resource(resource)
            .build();
        let scope = InstrumentationScope::builder("countd");
        let scope = scope.with_version(env!("CARGO_PKG_VERSION")).build();
        if !tracer::set(provider.tracer_with_scope(scope)) {
            return Err(TraceError::Started);
        }
        tokio::spawn(exporter.run(messages));
        Ok(Some(Traces { queue }))
    }

    /// Sends the spans that have ended, at most five seconds long.
    pub async fn flush(&self) {
        let (done, is_done) = oneshot::channel();
        let flush = async {
            if self.queue.send(Message::Flush(done)).await.is_ok() {
                // An error means that the exporter has ended.
                let _ = is_done.await;
            }
        };
        if tokio::time::timeout(FLUSH_TIMEOUT, flush).await.is_err() {
            tracing::warn!("the last spans could not be sent in time");
        }
    }
}

/// What sends the spans.
fn resource(settings: &TracingConfig) -> Resource {
    let pid = std::process::id();
    let instance = format!("{pid}-{:016x}", fastrand::u64(..));
    let attributes = [
        KeyValue::new("service.name", settings.service_name.clone()),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", instance),
        KeyValue::new("process.pid", i64::from(pid)),
    ];
    let builder = Resource::builder_empty();
    builder.with_attributes(attributes).build()
}
