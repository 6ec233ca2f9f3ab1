//! A master with every observer of a change: a replica, clients that WATCH, client-side caches, subscribers of keyspace
//! events, and the master's own statistics.

use crate::writes::name;
use countint_tests::{Client, Server, Value, client::encode, line, reply};
use std::collections::BTreeMap;

/// Settings that disable the heartbeats of a replication link for an hour.
pub const QUIET: [&str; 2] = ["repl-ping-replica-period 3600", "repl-timeout 36000"];

/// The observed effects of one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Whether `DEBUG DIGEST` changed.
    pub data_changed: bool,
    /// The increase of `rdb_changes_since_last_save`.
    pub dirty: u64,
    /// The bytes sent to replicas.
    pub sent_bytes: u64,
    /// The replica's calls of each of the module's commands.
    pub replica_calls: BTreeMap<String, u64>,
    /// The keyspace events (`event key`) in order.
    pub events: Vec<String>,
    /// Whether the transaction of a client that WATCHes `k` was aborted.
    pub watch_failed: bool,
    /// The keys invalidated for a client that had read `k`.
    pub invalidated: Vec<String>,
    /// The same for a client in broadcasting mode, with RESP2 redirection.
    pub broadcast: Vec<String>,
}

impl Effects {
    /// The effects of a call that changes `k` once, from its replicated form and its events.
    pub fn one_change(sent: &str, events: &[&str]) -> Effects {
        let sent_bytes = encode(&line::split(sent).expect("valid quotes")).len() as u64;
        Effects {
            data_changed: true,
            dirty: 1,
            sent_bytes,
            replica_calls: [(name(sent), 1)].into(),
            events: events.iter().map(|event| format!("{event} k")).collect(),
            watch_failed: true,
            invalidated: vec!["k".into()],
            broadcast: vec!["k".into()],
        }
    }
}

/// The servers and connections.
pub struct Observer {
    _servers: [Server; 2],
    /// The connection that writes.
    pub writer: Client,
    stats: Client,
    replica_stats: Client,
    watcher: Client,
    cache: Client,
    redirecting: Client,
    redirected: Client,
    subscriber: Client,
}

impl Observer {
    /// Starts a master and a replica, and connects the observers.
    pub fn start() -> Observer {
        let quiet = || {
            let builder = Server::builder().config("notify-keyspace-events KEA");
            QUIET
                .iter()
                .fold(builder, |builder, line| builder.config(line))
        };
        let master = quiet().start();
        let replica = quiet().replica_of(&master).start();
        let mut observer = Observer {
            writer: master.client(),
            stats: master.client(),
            replica_stats: replica.client(),
            watcher: master.client(),
            cache: master.client3(),
            redirecting: master.client(),
            redirected: master.client(),
            subscriber: master.client3(),
            _servers: [master, replica],
        };
        observer.subscribe();
        observer
    }

    fn subscribe(&mut self) {
        self.cache.ok("CLIENT TRACKING ON");
        let id = reply::int(self.redirected.ok("CLIENT ID"));
        self.redirected.ok("SUBSCRIBE __redis__:invalidate");
        self.redirecting
            .ok(&format!("CLIENT TRACKING ON REDIRECT {id} BCAST"));
        self.subscriber.ok("PSUBSCRIBE __key*__:*");
    }

    /// Empties the server, runs `setup`, and returns the reply and the effects of `act`.
    pub fn observe<R>(
        &mut self,
        setup: &[&str],
        act: impl FnOnce(&mut Client) -> R,
    ) -> (R, Effects) {
        self.writer.ok("FLUSHALL");
        for line in setup {
            self.writer.ok(line);
        }
        // A first command in this database, so that the link sends no SELECT for the call.
        self.writer.ok("SET ready 1");
        self.settle();
        self.drain();
        self.replica_stats.ok("CONFIG RESETSTAT");
        self.watcher.ok("WATCH k");
        self.cache.ok("EXISTS k");
        let before = self.write_stats();
        let digest = self.stats.digest();

        let reply = act(&mut self.writer);

        self.settle();
        let after = self.write_stats();
        let (events, invalidated, broadcast) = self.drain();
        assert_eq!(self.stats.digest(), self.replica_stats.digest(), "digests");
        let effects = Effects {
            data_changed: self.stats.digest() != digest,
            dirty: after.0 - before.0,
            sent_bytes: after.1 - before.1,
            replica_calls: self.replica_calls(),
            events,
            watch_failed: self.transaction_fails(),
            invalidated,
            broadcast,
        };
        (reply, effects)
    }

    /// Waits until the replica has caught up.
    fn settle(&mut self) {
        let offset = self.stats.info_number("replication", "master_repl_offset");
        countint_tests::wait_until("the replica has all", || {
            let replica = &mut self.replica_stats;
            replica.info_number("replication", "slave_repl_offset") == offset
        });
    }

    /// The number of changes since the last save, and the replication offset.
    fn write_stats(&mut self) -> (u64, u64) {
        let stats = &mut self.stats;
        (
            stats.info_number("persistence", "rdb_changes_since_last_save"),
            stats.info_number("replication", "master_repl_offset"),
        )
    }

    fn replica_calls(&mut self) -> BTreeMap<String, u64> {
        let stats = self.replica_stats.info("commandstats");
        let calls = stats.iter().filter_map(|(field, value)| {
            let command = field.strip_prefix("cmdstat_")?;
            let families = ["cint.", "ctab.", "rbm."];
            let ours = families.iter().any(|family| command.starts_with(family));
            let calls = value.strip_prefix("calls=")?.split(',').next()?;
            ours.then(|| {
                (
                    command.to_owned(),
                    calls.parse().expect("a number of calls"),
                )
            })
        });
        calls.collect()
    }

    /// Runs the transaction of the client that WATCHes. Returns whether it was aborted.
    fn transaction_fails(&mut self) -> bool {
        self.watcher.ok("MULTI");
        self.watcher.ok("PING");
        self.watcher.ok("EXEC") == Value::Nil
    }

    /// What the observers got since the last call: events, and keys invalidated in either way.
    fn drain(&mut self) -> (Vec<String>, Vec<String>, Vec<String>) {
        (
            events(&pushes(&mut self.subscriber)),
            invalidated(pushes(&mut self.cache)),
            invalidated(messages(&mut self.redirected)),
        )
    }
}

/// The pushes that a RESP3 client got. All pushes sent before another client's reply precede the reply to a PING that is
/// sent after it.
pub fn pushes(client: &mut Client) -> Vec<Vec<Value>> {
    client.send(&encode(&["PING"])).expect("the server listens");
    let mut all = Vec::new();
    loop {
        match client.read().unwrap_or_else(|why| panic!("{why}")) {
            Value::Push { data, .. } => all.push(data),
            Value::SimpleString(pong) if pong == "PONG" => return all,
            other => panic!("expected a push or PONG, got {}", reply::format(&other)),
        }
    }
}

/// The messages that a RESP2 subscriber got: channel and content.
fn messages(client: &mut Client) -> Vec<Vec<Value>> {
    client.send(&encode(&["PING"])).expect("the server listens");
    let mut all = Vec::new();
    loop {
        let mut message = reply::array(client.read().unwrap_or_else(|why| panic!("{why}")));
        match reply::text(message.remove(0)).as_str() {
            "message" => all.push(message),
            "pong" => return all,
            other => panic!("an unexpected kind of message: {other}"),
        }
    }
}

/// The keys in invalidation messages; `*` means all keys.
pub fn invalidated(messages: Vec<Vec<Value>>) -> Vec<String> {
    let keys = messages.into_iter().filter_map(|mut message| message.pop());
    keys.flat_map(|keys| match keys {
        Value::Nil => vec!["*".to_owned()],
        keys => reply::array(keys).into_iter().map(reply::text).collect(),
    })
    .collect()
}

/// Events as `event key`, from messages on both kinds of channels, which must agree.
pub fn events(messages: &[Vec<Value>]) -> Vec<String> {
    let (mut by_event, mut by_key) = (Vec::new(), Vec::new());
    for message in messages {
        let [.., channel, content] = message.as_slice() else {
            panic!("a message has a channel and a content");
        };
        let (channel, content) = (reply::text(channel.clone()), reply::text(content.clone()));
        match channel.split_once("__:") {
            Some((kind, event)) if kind.starts_with("__keyevent") => {
                by_event.push(format!("{event} {content}"));
            }
            Some((_, key)) => by_key.push(format!("{content} {key}")),
            None => panic!("unknown channel: {channel}"),
        }
    }
    assert_eq!(by_event, by_key, "events by name and by key");
    by_event
}
