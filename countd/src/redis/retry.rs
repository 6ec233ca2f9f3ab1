//! Retries of read-only commands.

use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisError, RedisFuture, Value};

/// A connection for read-only commands. A command whose connection was lost is retried once on a new one: the first command after
/// the server has closed an idle connection, or was restarted, fails although the server is healthy. Timeouts are not retried.
pub struct RetryReads<C>(pub C);

/// Whether the connection was lost, so that a new one may work.
fn is_connection_lost(error: &RedisError) -> bool {
    !error.is_timeout() && (error.is_io_error() || error.is_connection_dropped())
}

impl<C: ConnectionLike + Send> ConnectionLike for RetryReads<C> {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            match self.0.req_packed_command(cmd).await {
                Err(error) if is_connection_lost(&error) => self.0.req_packed_command(cmd).await,
                reply => reply,
            }
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            match self.0.req_packed_commands(pipeline, offset, count).await {
                Err(error) if is_connection_lost(&error) => {
                    self.0.req_packed_commands(pipeline, offset, count).await
                }
                replies => replies,
            }
        })
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, ErrorKind};

    /// A connection that fails a number of times before it replies.
    struct Failing(usize, ErrorKind);

    impl Failing {
        fn reply(&mut self) -> Result<Value, RedisError> {
            if self.0 == 0 {
                return Ok(Value::Okay);
            }
            self.0 -= 1;
            Err(io::Error::from(self.1).into())
        }
    }

    impl ConnectionLike for Failing {
        fn req_packed_command<'a>(&'a mut self, _: &'a Cmd) -> RedisFuture<'a, Value> {
            Box::pin(async { self.reply() })
        }

        fn req_packed_commands<'a>(
            &'a mut self,
            _: &'a Pipeline,
            _: usize,
            count: usize,
        ) -> RedisFuture<'a, Vec<Value>> {
            Box::pin(async move { Ok(vec![self.reply()?; count]) })
        }

        fn get_db(&self) -> i64 {
            0
        }
    }

    #[tokio::test]
    async fn command_is_retried_once_after_a_lost_connection() {
        for (failures, kind, succeeds) in [
            (1, ErrorKind::BrokenPipe, true),
            (1, ErrorKind::ConnectionReset, true),
            (1, ErrorKind::UnexpectedEof, true),
            (2, ErrorKind::BrokenPipe, false),
            (1, ErrorKind::TimedOut, false),
        ] {
            let mut single = RetryReads(Failing(failures, kind));
            let reply = single.req_packed_command(&redis::cmd("PING")).await;
            assert_eq!(reply.is_ok(), succeeds, "{failures} of {kind}");
            let mut pipelined = RetryReads(Failing(failures, kind));
            let replies = pipelined.req_packed_commands(&redis::pipe(), 0, 2).await;
            assert_eq!(replies.is_ok(), succeeds, "{failures} of {kind}");
        }
    }
}
