//! Latency of Redis, and spans of its commands.

use crate::trace::Span;
use metrics::Histogram;
use redis::aio::ConnectionLike;
use redis::{Arg, Cmd, Pipeline, RedisError, RedisFuture, Value};
use std::borrow::Cow;
use std::thread::LocalKey;
use std::time::Instant;

/// A connection that records the latency of each command and pipeline in the metric `countd_redis_seconds`, and as a span of the current trace. The latency includes
/// the time in which a command waits for earlier commands on the same connection.
#[derive(Clone)]
pub struct LatencyRecorder<C>(pub C);

impl<C: ConnectionLike + Send> ConnectionLike for LatencyRecorder<C> {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let span = Span::client(|| operation(cmd));
            let start = Instant::now();
            let reply = self.0.req_packed_command(cmd).await;
            record(&COMMANDS, start);
            if let Some(span) = span {
                describe(&span, operation(cmd), reply.as_ref().err());
                if let Some(hash) = script_hash(cmd) {
                    span.set("db.stored_procedure.name", hash);
                }
            }
            reply
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let span = Span::client(|| PIPELINE.into());
            let start = Instant::now();
            let replies = self.0.req_packed_commands(pipeline, offset, count).await;
            record(&PIPELINES, start);
            if let Some(span) = span {
                describe(&span, PIPELINE.into(), replies.as_ref().err());
                let commands = i64::try_from(pipeline.len()).unwrap_or(i64::MAX);
                span.set("db.operation.batch.size", commands);
            }
            replies
        })
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}

/// The operation of a pipeline, in the conventions of OpenTelemetry.
const PIPELINE: &str = "PIPELINE";

/// The name of a command.
fn operation(cmd: &Cmd) -> Cow<'static, str> {
    Cow::Owned(argument(cmd, 0).unwrap_or_default().to_ascii_uppercase())
}

/// The hash of the script that a command runs.
fn script_hash(cmd: &Cmd) -> Option<String> {
    match argument(cmd, 0)?.as_str() {
        "EVALSHA" => argument(cmd, 1),
        _ => None,
    }
}

/// An argument of a command. `None` if there is none, or if it is not text.
fn argument(cmd: &Cmd, index: usize) -> Option<String> {
    match cmd.args_iter().nth(index)? {
        Arg::Simple(bytes) => std::str::from_utf8(bytes).ok().map(str::to_owned),
        _ => None,
    }
}

/// Sets the attributes of a call.
fn describe(span: &Span, operation: Cow<'static, str>, error: Option<&RedisError>) {
    span.set("db.system.name", "redis");
    span.set("db.operation.name", operation);
    if let Some(error) = error {
        let kind = error
            .code()
            .map_or_else(|| format!("{:?}", error.kind()), str::to_owned);
        span.fail(kind);
    }
}

thread_local! {
    /// The metrics of commands and of pipelines. Looking a metric up by its labels costs as much as the rest of a command's overhead.
    static COMMANDS: Histogram = histogram("command");
    static PIPELINES: Histogram = histogram("pipeline");
}

fn histogram(kind: &'static str) -> Histogram {
    metrics::histogram!("countd_redis_seconds", "kind" => kind)
}

fn record(histogram: &'static LocalKey<Histogram>, start: Instant) {
    histogram.with(|histogram| histogram.record(start.elapsed()));
}
