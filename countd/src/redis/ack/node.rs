//! The connections to a node for writes that wait for acknowledgements.
//!
//! Each connection pipelines the queued commands of several callers: a round. It ends with a write of its own, the mark, and with
//! `WAIT` or `WAITAOF`. The mark makes a round safe that changed nothing: from version 7.2 on, a
//! connection that has written nothing waits for nothing, although a reply may report what other connections have just written.
//!
//! Some servers reply to `WAITAOF` too early ([`replies_early`](rule::replies_early)): the reply says that the file has the writes of the round,
//! and not that they are synced. A sync that begins later has them, and one begins within a second. So a round on such a server then waits until
//! a sync is due, and ends with another mark and another `WAITAOF`: while that sync runs, the server does not reply.

use super::rule::{self, AckRule};
use crate::domain::error::not_acknowledged;
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::{Arg, Client, Cmd, Pipeline, RedisError, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, oneshot};

/// Precedes the command for a key whose slot is being moved. The connection to the cluster sends it, too.
const ASKING: &str = "ASKING";
/// The number of connections to a node. While one waits, the others send.
const CONNECTIONS: usize = 4;
/// The number of commands of a round, after which it takes no further caller's.
const MAX_COMMANDS: usize = 1_000;

/// The time within which a server with `appendfsync everysec` begins a sync, with a margin for its timer.
const SYNC_DUE: Duration = Duration::from_millis(1_250);

/// The replies to the commands of a caller.
type Replies = Result<Vec<Value>, RedisError>;

/// The connections to a node. Cheap to clone. They are closed when the last clone is dropped.
#[derive(Clone)]
pub struct AckedNode(UnboundedSender<Caller>);

/// The commands of a caller, and where their replies are sent.
struct Caller {
    commands: Vec<Cmd>,
    marks: Vec<Mark>,
    replies: oneshot::Sender<Replies>,
}

/// A key that the node can write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The key.
    pub key: String,
    /// Whether its slot is being moved to the node, so that `ASKING` must precede the command.
    pub is_ask: bool,
}

impl Mark {
    /// The mark of commands for this key.
    pub fn new(key: impl Into<String>) -> Mark {
        Mark {
            key: key.into(),
            is_ask: false,
        }
    }
}

impl AckedNode {
    /// The connections to the node of `client`, which are opened when they are used. Must be called in a Tokio runtime.
    ///
    /// # Errors
    /// The settings are invalid.
    pub fn new(
        client: &Client,
        settings: &ConnectionManagerConfig,
        rule: AckRule,
    ) -> Result<AckedNode, RedisError> {
        let (sender, queue) = unbounded_channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..CONNECTIONS {
            let connection =
                ConnectionManager::new_lazy_with_config(client.clone(), settings.clone())?;
            tokio::spawn(run(connection, Arc::clone(&queue), rule));
        }
        Ok(AckedNode(sender))
    }

    /// Sends commands. Returns their replies, in order, once everything that the node has executed until then is as safe as required.
    /// One of `marks` has to be writable.
    ///
    /// # Errors
    /// The connection failed, or a command was executed that is not safe after the timeout.
    pub async fn send(&self, commands: Vec<Cmd>, marks: Vec<Mark>) -> Replies {
        let (replies, received) = oneshot::channel();
        let caller = Caller {
            commands,
            marks,
            replies,
        };
        let ended = || RedisError::from(std::io::Error::other("the process ends"));
        self.0.send(caller).map_err(|_| ended())?;
        received.await.unwrap_or_else(|_| Err(ended()))
    }
}

/// Sends rounds over a connection, until there are no callers any more.
async fn run(
    mut connection: ConnectionManager,
    queue: Arc<Mutex<UnboundedReceiver<Caller>>>,
    rule: AckRule,
) {
    while let Some(callers) = next_round(&queue).await {
        send_round(&mut connection, callers, rule).await;
    }
}

/// Waits for a caller, and takes all that have queued up.
async fn next_round(queue: &Mutex<UnboundedReceiver<Caller>>) -> Option<Vec<Caller>> {
    let mut queue = queue.lock().await;
    let first = queue.recv().await?;
    let mut count = first.commands.len();
    let mut callers = vec![first];
    while count < MAX_COMMANDS
        && let Ok(next) = queue.try_recv()
    {
        count += next.commands.len();
        callers.push(next);
    }
    Some(callers)
}

async fn send_round(connection: &mut impl ConnectionLike, mut callers: Vec<Caller>, rule: AckRule) {
    let mut pipeline = Pipeline::new();
    let mut kinds: Vec<Vec<bool>> = Vec::with_capacity(callers.len());
    for caller in &mut callers {
        kinds.push(caller.commands.iter().map(uses_data).collect());
        for command in caller.commands.drain(..) {
            pipeline.add_command(command);
        }
    }
    let has_info = add_info(&mut pipeline, rule);
    // They follow the commands of all callers, so those of one caller are enough.
    let marks = callers.first_mut();
    let marks = marks.map_or_else(Vec::new, |first| std::mem::take(&mut first.marks));
    add_wait(&mut pipeline, &marks, rule);
    let total = pipeline.len();
    let mut replies = match connection.req_packed_commands(&pipeline, 0, total).await {
        Ok(replies) => replies.into_iter(),
        Err(error) => {
            for caller in callers {
                // The caller may have left.
                let _ = caller.replies.send(Err(error.clone()));
            }
            return;
        }
    };
    let by_caller: Vec<Vec<Value>> = kinds
        .iter()
        .map(|kinds| replies.by_ref().take(kinds.len()).collect())
        .collect();
    let info = replies.by_ref().take(usize::from(has_info)).next();
    let mut acknowledged = acknowledged(replies, &marks, rule);
    if let (Ok(()), Some(info)) = (&acknowledged, info.filter(rule::replies_early)) {
        tokio::time::sleep(SYNC_DUE).await;
        acknowledged = wait_again(connection, (&marks, &info), rule).await;
    }
    for ((caller, kinds), replies) in callers.into_iter().zip(kinds).zip(by_caller) {
        let _ = caller.replies.send(confirm(&kinds, replies, &acknowledged));
    }
}

/// Adds the marks, and the command that waits.
fn add_wait(pipeline: &mut Pipeline, marks: &[Mark], rule: AckRule) {
    for mark in marks {
        if mark.is_ask {
            pipeline.cmd(ASKING);
        }
        pipeline.add_command(rule::mark(&mark.key));
    }
    pipeline.add_command(rule.command());
}

/// Adds the command that describes the server, if the level needs it.
fn add_info(pipeline: &mut Pipeline, rule: AckRule) -> bool {
    let info = rule.info_command();
    let has_info = info.is_some();
    if let Some(info) = info {
        pipeline.add_command(info);
    }
    has_info
}

/// Waits once more, after other marks, for writes to the server that `info` describes.
async fn wait_again(
    connection: &mut impl ConnectionLike,
    (marks, info): (&[Mark], &Value),
    rule: AckRule,
) -> Result<(), String> {
    let mut pipeline = Pipeline::new();
    add_info(&mut pipeline, rule);
    add_wait(&mut pipeline, marks, rule);
    let total = pipeline.len();
    let sent = connection.req_packed_commands(&pipeline, 0, total).await;
    let mut replies = sent.map_err(|error| error.to_string())?.into_iter();
    let now = replies.next().unwrap_or(Value::Nil);
    // The connection may have been opened again, to a server that was restarted and has lost the writes.
    let run = rule::run_id(&now);
    if run.is_none() || run != rule::run_id(info) {
        return Err("the server was restarted".to_owned());
    }
    acknowledged(replies, marks, rule)
}

/// Whether a round is safe, by the replies of the marks and of the command that waits.
fn acknowledged(
    mut replies: impl Iterator<Item = Value>,
    marks: &[Mark],
    rule: AckRule,
) -> Result<(), String> {
    let mut is_marked = false;
    for mark in marks {
        if mark.is_ask {
            replies.next();
        }
        is_marked |= matches!(replies.next(), Some(Value::Okay));
    }
    rule.check(&replies.next().unwrap_or(Value::Nil))?;
    match is_marked {
        true => Ok(()),
        false => Err("the node cannot be written".to_owned()),
    }
}

/// Whether a command reads or writes keys.
fn uses_data(command: &Cmd) -> bool {
    let name = match command.args_iter().next() {
        Some(Arg::Simple(name)) => name,
        _ => &[],
    };
    !matches!(name, b"SCRIPT" | b"ASKING")
}

/// The replies of a caller, if they are safe. Errors of the server are in any case: nothing was executed. `kinds` has for each command
/// whether it [uses data](uses_data).
fn confirm(kinds: &[bool], replies: Vec<Value>, acknowledged: &Result<(), String>) -> Replies {
    let mut executed = kinds.iter().zip(&replies);
    let is_executed =
        executed.any(|(uses_data, reply)| *uses_data && !matches!(reply, Value::ServerError(_)));
    match acknowledged {
        Err(reason) if is_executed => {
            metrics::counter!("countd_redis_not_acknowledged_total").increment(1);
            Err(not_acknowledged(reason))
        }
        _ => Ok(replies),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::config::{Ack, Config};
    use crate::domain::error::StoreError;
    use redis::RedisFuture;

    /// A server with these replies to the marks and to `WAIT`. It replies to other commands with their position.
    struct FakeServer {
        last: Vec<Value>,
        sent: Vec<String>,
    }

    impl ConnectionLike for FakeServer {
        fn req_packed_command<'a>(&'a mut self, _: &'a Cmd) -> RedisFuture<'a, Value> {
            Box::pin(async { Ok(Value::Nil) })
        }

        fn req_packed_commands<'a>(
            &'a mut self,
            pipeline: &'a Pipeline,
            _: usize,
            count: usize,
        ) -> RedisFuture<'a, Vec<Value>> {
            let text = |cmd: &Cmd| String::from_utf8_lossy(&cmd.get_packed_command()).into_owned();
            self.sent = pipeline.cmd_iter().map(text).collect();
            let first = count - self.last.len();
            let mut replies: Vec<Value> = (0..first).map(|at| Value::Int(at as i64)).collect();
            replies.extend(self.last.clone());
            Box::pin(async move { Ok(replies) })
        }

        fn get_db(&self) -> i64 {
            0
        }
    }

    fn rule() -> AckRule {
        let config = Config::parse("[redis]\nack = \"replicas:1\"").expect("valid");
        assert_eq!(config.redis.ack, Ack::Replicas(1));
        AckRule::configured(&config.redis).expect("a rule")
    }

    fn moved() -> Value {
        let moved = redis::parse_redis_value(b"-MOVED 1 h:1\r\n");
        moved.expect("a reply")
    }

    /// Sends a round of two callers, with one and two commands.
    async fn round(marks: Vec<Mark>, last: Vec<Value>) -> ([Replies; 2], Vec<String>) {
        let mut server = FakeServer {
            last,
            sent: Vec::new(),
        };
        let (mut callers, mut received) = (Vec::new(), Vec::new());
        for count in [1, 2] {
            let (replies, receiver) = oneshot::channel();
            callers.push(Caller {
                commands: vec![redis::cmd("GET"); count],
                marks: marks.clone(),
                replies,
            });
            received.push(receiver);
        }
        send_round(&mut server, callers, rule()).await;
        let mut replies = received.into_iter();
        let mut next = async || replies.next().expect("two").await.expect("a reply");
        ([next().await, next().await], server.sent)
    }

    #[tokio::test]
    async fn callers_share_one_wait_and_get_their_own_replies() {
        let marks = vec![Mark::new("countd:ack")];
        let ([one, two], sent) = round(marks, vec![Value::Okay, Value::Int(1)]).await;
        assert_eq!(one, Ok(vec![Value::Int(0)]));
        assert_eq!(two, Ok(vec![Value::Int(1), Value::Int(2)]));
        assert_eq!(sent.len(), 5, "{sent:?}");
        assert!(
            sent[3].contains("SET") && sent[4].contains("WAIT"),
            "{sent:?}"
        );
    }

    #[tokio::test]
    async fn round_that_is_not_safe_has_no_replies() {
        let own = Mark {
            key: "countd:ack:{1}".to_owned(),
            is_ask: true,
        };
        let marks = || vec![own.clone(), Mark::new("countd:ack:{2}")];
        let (asking, ok, reached) = (Value::Okay, Value::Okay, Value::Int(1));
        for (mark, spare, waited, is_safe) in [
            (ok.clone(), ok.clone(), reached.clone(), true),
            (moved(), ok.clone(), reached.clone(), true),
            (ok.clone(), moved(), reached.clone(), true),
            (moved(), moved(), reached, false),
            (ok.clone(), ok.clone(), Value::Int(0), false),
            (ok.clone(), ok, moved(), false),
        ] {
            let last = vec![asking.clone(), mark, spare, waited];
            let (replies, sent) = round(marks(), last).await;
            assert_eq!(sent.len(), 7, "{sent:?}");
            for replies in replies {
                let error = replies.err().map(StoreError::from);
                let is_refused = matches!(error, Some(StoreError::NotAcknowledged(_)));
                assert_eq!(is_refused, !is_safe, "{error:?}");
            }
        }
    }

    #[test]
    fn errors_of_the_server_are_returned_in_any_case() {
        let unsafe_round = Err("0 of 1 replicas".to_owned());
        let load = redis::cmd("SCRIPT").arg("LOAD").clone();
        let kinds = [load, redis::cmd("EVALSHA")].map(|command| uses_data(&command));
        let confirm = |reply| confirm(&kinds, vec![Value::Okay, reply], &unsafe_round);
        assert_eq!(confirm(moved()), Ok(vec![Value::Okay, moved()]));
        assert!(confirm(Value::Okay).is_err());
    }
}
