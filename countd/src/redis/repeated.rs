//! Repeating what is safe to repeat.

use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisError, RedisFuture, Value};

/// A connection for commands that change nothing. What was lost with its connection is sent once more, on the new one: that a
/// server has closed an idle connection, or was restarted, is found out by the next command, and the server is healthy then.
/// What timed out is not repeated.
pub struct Repeated<C>(pub C);

/// Whether the connection is gone, and a new one may work.
fn is_lost(error: &RedisError) -> bool {
    !error.is_timeout() && (error.is_io_error() || error.is_connection_dropped())
}

impl<C: ConnectionLike + Send> ConnectionLike for Repeated<C> {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            match self.0.req_packed_command(cmd).await {
                Err(why) if is_lost(&why) => self.0.req_packed_command(cmd).await,
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
                Err(why) if is_lost(&why) => {
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

    /// A connection that fails a number of times before it answers.
    struct Failing(usize, ErrorKind);

    impl Failing {
        fn answer(&mut self) -> Result<Value, RedisError> {
            if self.0 == 0 {
                return Ok(Value::Okay);
            }
            self.0 -= 1;
            Err(io::Error::from(self.1).into())
        }
    }

    impl ConnectionLike for Failing {
        fn req_packed_command<'a>(&'a mut self, _: &'a Cmd) -> RedisFuture<'a, Value> {
            Box::pin(async { self.answer() })
        }

        fn req_packed_commands<'a>(
            &'a mut self,
            _: &'a Pipeline,
            _: usize,
            count: usize,
        ) -> RedisFuture<'a, Vec<Value>> {
            Box::pin(async move { Ok(vec![self.answer()?; count]) })
        }

        fn get_db(&self) -> i64 {
            0
        }
    }

    #[tokio::test]
    async fn what_was_lost_with_a_connection_is_sent_once_more() {
        for (failures, kind, is_answered) in [
            (1, ErrorKind::BrokenPipe, true),
            (1, ErrorKind::ConnectionReset, true),
            (1, ErrorKind::UnexpectedEof, true),
            (2, ErrorKind::BrokenPipe, false),
            (1, ErrorKind::TimedOut, false),
        ] {
            let mut one = Repeated(Failing(failures, kind));
            let reply = one.req_packed_command(&redis::cmd("PING")).await;
            assert_eq!(reply.is_ok(), is_answered, "{failures} of {kind}");
            let mut many = Repeated(Failing(failures, kind));
            let replies = many.req_packed_commands(&redis::pipe(), 0, 2).await;
            assert_eq!(replies.is_ok(), is_answered, "{failures} of {kind}");
        }
    }
}
