//! The tracer of the process.

use opentelemetry_sdk::trace::SdkTracer;
use std::sync::OnceLock;

/// Set once, if traces are on.
static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// Whether traces are on.
pub fn is_enabled() -> bool {
    TRACER.get().is_some()
}

/// The tracer, if traces are on.
pub(super) fn tracer() -> Option<&'static SdkTracer> {
    TRACER.get()
}

/// Switches traces on. Returns false if they are on already.
pub(super) fn set(tracer: SdkTracer) -> bool {
    TRACER.set(tracer).is_ok()
}
