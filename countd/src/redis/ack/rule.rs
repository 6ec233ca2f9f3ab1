//! How safe a write must be, as a command that waits for it.

use crate::domain::config::{Ack, RedisConfig};
use crate::domain::error::ConnectError;
use crate::redis::server_info::info_field;
use redis::aio::ConnectionManager;
use redis::{Cmd, RedisError, Value};
use std::time::Duration;

/// Commands that this module sends.
pub fn permissions(ack: Ack) -> &'static [&'static str] {
    match ack {
        Ack::Memory => &[],
        Ack::Fsync => &["SET {ack} 1", "WAITAOF 1 0 1", "INFO server"],
        Ack::Replicas(_) => &["SET {ack} 1", "WAIT 1 1"],
    }
}

/// How safe a write must be before it is confirmed, and the timeout for that. Not [`Ack::Memory`], for which nothing waits.
#[derive(Clone, Copy, Debug)]
pub struct AckRule {
    ack: Ack,
    timeout: Duration,
}

impl AckRule {
    /// The configured rule. `None` if a write is safe enough when it is executed.
    pub fn configured(config: &RedisConfig) -> Option<AckRule> {
        (config.ack != Ack::Memory).then(|| AckRule {
            ack: config.ack,
            timeout: Duration::from_millis(config.ack_timeout_ms),
        })
    }

    /// The timeout.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The command that waits until everything that its connection has written is safe, or until the timeout.
    pub(super) fn command(&self) -> Cmd {
        self.command_within(self.timeout)
    }

    fn command_within(&self, timeout: Duration) -> Cmd {
        // 0 is no timeout.
        let timeout = timeout.as_millis().max(1) as u64;
        match self.ack {
            Ack::Replicas(count) => {
                let mut cmd = redis::cmd("WAIT");
                cmd.arg(count).arg(timeout);
                cmd
            }
            Ack::Memory | Ack::Fsync => {
                let mut cmd = redis::cmd("WAITAOF");
                cmd.arg(1).arg(0).arg(timeout);
                cmd
            }
        }
    }

    /// The command that describes the server, for [`replies_early`]; `None` if the level needs no `WAITAOF`.
    pub(super) fn info_command(&self) -> Option<Cmd> {
        (self.ack == Ack::Fsync).then(|| {
            let mut cmd = redis::cmd("INFO");
            cmd.arg("server");
            cmd
        })
    }

    /// Checks the reply of [`command`](Self::command).
    ///
    /// # Errors
    /// Why the writes are not safe enough.
    pub(super) fn check(&self, reply: &Value) -> Result<(), String> {
        let ms = self.timeout.as_millis();
        match (self.ack, reply) {
            (_, Value::ServerError(error)) => Err(RedisError::from(error.clone()).to_string()),
            (Ack::Replicas(count), Value::Int(reached)) => match *reached >= i64::from(count) {
                true => Ok(()),
                false => Err(format!("{reached} of {count} replicas in {ms} ms")),
            },
            (Ack::Memory | Ack::Fsync, Value::Array(reached)) => match reached.first() {
                Some(Value::Int(1..)) => Ok(()),
                _ => Err(format!("not synced to the disk in {ms} ms")),
            },
            _ => Err("unexpected reply of the server".to_owned()),
        }
    }
}

/// Whether a server replies to `WAITAOF` before it has synced, by its reply to [`AckRule::info_command`]. With `appendfsync everysec`, all versions of
/// Valkey (up to 9.1) and Redis before 8 take for synced what they have written to the file since their last sync, until the next one is
/// due. Measured by `ack::fsync` (tests), whose disk loses what was not synced.
pub(super) fn replies_early(info: &Value) -> bool {
    // Valkey says that it is compatible with Redis 7.2.
    let version = field(info, "redis_version");
    let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    major.is_none_or(|major| major < 8)
}

/// The run of a server, by its reply to [`AckRule::info_command`].
pub(super) fn run_id(info: &Value) -> Option<String> {
    field(info, "run_id")
}

fn field(info: &Value, name: &str) -> Option<String> {
    let text = match info {
        Value::BulkString(text) => String::from_utf8_lossy(text),
        Value::VerbatimString { text, .. } => text.into(),
        _ => return None,
    };
    info_field(&text, name).map(str::to_owned)
}

/// The command that writes a key so that there is something to wait for.
pub(super) fn mark(key: &str) -> Cmd {
    let mut cmd = redis::cmd("SET");
    cmd.arg(key).arg(1);
    cmd
}

/// Checks that a server can make writes as safe as configured.
///
/// # Errors
/// It cannot, or it is unavailable.
pub async fn check_server(
    server: &mut ConnectionManager,
    config: &RedisConfig,
) -> Result<(), ConnectError> {
    // Replicas may come later.
    let (Ack::Fsync, Some(rule)) = (config.ack, AckRule::configured(config)) else {
        return Ok(());
    };
    let probe = rule.command_within(Duration::from_millis(1));
    let reply: Result<Value, RedisError> = probe.query_async(server).await;
    match reply {
        Ok(_) => Ok(()),
        Err(error) => match unsupported(&error) {
            Some(problem) => Err(ConnectError::Ack(
                config.ack.to_string(),
                problem.to_owned(),
            )),
            // The check of permissions names it.
            None if error.code() == Some("NOPERM") => Ok(()),
            None => Err(error.into()),
        },
    }
}

/// Why the server does not support `WAITAOF`, if that is the error.
fn unsupported(error: &RedisError) -> Option<&'static str> {
    let text = error.to_string();
    if text.contains("unknown command") {
        return Some("the server has no WAITAOF: it needs Redis 7.2 or later, or Valkey");
    }
    text.contains("appendonly is disabled")
        .then_some("the server has no append-only file: set appendonly yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(ack: Ack) -> AckRule {
        AckRule {
            ack,
            timeout: Duration::from_millis(70),
        }
    }

    fn packed(ack: Ack) -> String {
        String::from_utf8_lossy(&rule(ack).command().get_packed_command()).replace("\r\n", " ")
    }

    #[test]
    fn commands_wait_for_the_level() {
        assert_eq!(
            packed(Ack::Replicas(2)),
            "*3 $4 WAIT $1 2 $2 70 ",
            "WAIT has no form without a timeout"
        );
        assert_eq!(packed(Ack::Fsync), "*4 $7 WAITAOF $1 1 $1 0 $2 70 ");
    }

    #[test]
    fn only_a_reached_level_is_accepted() {
        let (two, fsync) = (rule(Ack::Replicas(2)), rule(Ack::Fsync));
        let pair = |local, replicas| Value::Array(vec![Value::Int(local), Value::Int(replicas)]);
        for reached in [2, 3] {
            assert_eq!(two.check(&Value::Int(reached)), Ok(()));
        }
        assert_eq!(
            two.check(&Value::Int(1)),
            Err("1 of 2 replicas in 70 ms".to_owned())
        );
        assert_eq!(fsync.check(&pair(1, 0)), Ok(()));
        // Replicas do not count.
        assert!(fsync.check(&pair(0, 2)).is_err());
        for unexpected in [Value::Nil, Value::Okay, Value::Array(Vec::new())] {
            assert!(two.check(&unexpected).is_err() && fsync.check(&unexpected).is_err());
        }
    }

    #[test]
    fn servers_that_reply_before_they_sync_are_recognised() {
        let reply = |version: &str| {
            let text = format!("# Server\r\nredis_version:{version}\r\nrun_id:ab\r\n");
            Value::BulkString(text.into_bytes())
        };
        let info = |version| replies_early(&reply(version));
        assert_eq!(run_id(&reply("8.0.2")).as_deref(), Some("ab"));
        assert_eq!(run_id(&Value::Nil), None);
        assert!(info("7.2.4") && info("7.4.1") && info("") && replies_early(&Value::Nil));
        assert!(!info("8.0.2") && !info("8.10.2") && !info("10.0.0"));
    }

    #[test]
    fn servers_without_the_command_are_recognised() {
        let error =
            |text: &str| redis::make_extension_error("ERR".to_owned(), Some(text.to_owned()));
        let old = "unknown command 'WAITAOF', with args beginning with: '1' '0' '1' ";
        assert!(unsupported(&error(old)).is_some_and(|text| text.contains("7.2")));
        let off = "WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
        assert!(unsupported(&error(off)).is_some_and(|text| text.contains("appendonly yes")));
        assert_eq!(unsupported(&error("loading")), None);
    }
}
