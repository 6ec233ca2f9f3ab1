//! Spans, and the current one of a task.

use super::tracer::tracer;
use hyper::http::HeaderMap;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanBuilder, SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::Pin;

/// A span, which ends when it is dropped. It records nothing if its trace is not sampled.
pub struct Span(Context);

/// The headers of W3C Trace Context.
struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(|name| name.as_str()).collect()
    }
}

impl Span {
    /// The span of a request with these headers: a part of the trace of `traceparent`, or the first span of a new one. `None` if traces are
    /// off.
    pub fn server(headers: &HeaderMap) -> Option<Span> {
        let tracer = tracer()?;
        let propagator = TraceContextPropagator::new();
        let parent = propagator.extract_with_context(&Context::new(), &Headers(headers));
        Some(Span::start(
            tracer,
            "request".into(),
            SpanKind::Server,
            &parent,
        ))
    }

    /// The first span of a new trace. `None` if traces are off.
    pub fn root(name: impl Into<Cow<'static, str>>) -> Option<Span> {
        let tracer = tracer()?;
        let span = Span::start(tracer, name.into(), SpanKind::Internal, &Context::new());
        Some(span)
    }

    /// The span of a call to a server, within the current span. `None` if there is none that is sampled; then `name` is not called.
    pub fn client(name: impl FnOnce() -> Cow<'static, str>) -> Option<Span> {
        let tracer = tracer()?;
        let parent = sampled()?;
        Some(Span::start(tracer, name(), SpanKind::Client, &parent))
    }

    fn start(
        tracer: &impl Tracer<Span: Send + Sync + 'static>,
        name: Cow<'static, str>,
        kind: SpanKind,
        parent: &Context,
    ) -> Span {
        let builder = SpanBuilder::from_name(name).with_kind(kind);
        let span = tracer.build_with_context(builder, parent);
        Span(parent.with_span(span))
    }

    /// The ID of the trace: 32 hexadecimal digits.
    pub fn trace_id(&self) -> String {
        self.0.span().span_context().trace_id().to_string()
    }

    /// Whether it is recorded: if not, attributes have no effect.
    pub fn is_sampled(&self) -> bool {
        self.0.span().span_context().is_sampled()
    }

    /// Gives it another name.
    pub fn rename(&self, name: String) {
        self.0.span().update_name(name);
    }

    /// Sets an attribute.
    pub fn set(&self, name: &'static str, value: impl Into<Value>) {
        self.0.span().set_attribute(KeyValue::new(name, value));
    }

    /// Marks it as failed, with the kind of the error.
    pub fn fail(&self, kind: impl Into<Value>) {
        self.set("error.type", kind);
        let description = Cow::Borrowed("");
        self.0.span().set_status(Status::Error { description });
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        // Its context may live on in a task that it has started.
        self.0.span().end();
    }
}

/// The context of the current span, if that is sampled.
fn sampled() -> Option<Context> {
    Context::map_current(|context| {
        let is_sampled = context.span().span_context().is_sampled();
        is_sampled.then(|| context.clone())
    })
}

/// Runs a future. The span, if there is one, is the current one within it. It takes the future where it is, because moving that of a request would
/// cost more than all the rest does without traces.
pub async fn scope<F: Future>(span: Option<&Span>, mut future: Pin<&mut F>) -> F::Output {
    poll_fn(|task| {
        let _guard = span.map(|span| span.0.clone().attach());
        future.as_mut().poll(task)
    })
    .await
}
