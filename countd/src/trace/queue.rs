//! The queue of spans that have ended. It never blocks what they describe.

use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Counts spans by what became of them.
pub fn count(result: &'static str, spans: u64) {
    metrics::counter!("countd_spans_total", "result" => result).increment(spans);
}

/// A message to the exporter.
pub enum Message {
    /// A span that has ended.
    Span(Box<SpanData>),
    /// Asks it to send what it has, and to tell when that is done.
    Flush(oneshot::Sender<()>),
}

/// The queue. A span that finds it full is dropped and counted.
#[derive(Debug)]
pub struct SpanQueue {
    queue: mpsc::Sender<Message>,
}

impl SpanQueue {
    /// Puts spans into this channel.
    pub fn new(queue: mpsc::Sender<Message>) -> SpanQueue {
        SpanQueue { queue }
    }
}

impl SpanProcessor for SpanQueue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if !span.span_context.is_sampled() {
            return;
        }
        if self.queue.try_send(Message::Span(Box::new(span))).is_err() {
            count("dropped", 1);
        }
    }

    // `Traces::flush` waits without blocking a thread.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}
