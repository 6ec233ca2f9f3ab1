//! Latency of Redis.

use metrics::Histogram;
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisFuture, Value};
use std::thread::LocalKey;
use std::time::Instant;

/// A connection that records the latency of each command and pipeline in the metric `countd_redis_seconds`. The latency includes
/// the time in which a command waits for earlier commands on the same connection.
#[derive(Clone)]
pub struct LatencyRecorder<C>(pub C);

impl<C: ConnectionLike + Send> ConnectionLike for LatencyRecorder<C> {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let start = Instant::now();
            let reply = self.0.req_packed_command(cmd).await;
            record(&COMMANDS, start);
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
            let start = Instant::now();
            let replies = self.0.req_packed_commands(pipeline, offset, count).await;
            record(&PIPELINES, start);
            replies
        })
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
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
