//! The processes that use the data, and the epoch of the layout that each of them follows.
//!
//! Each process sends a heartbeat every second, and reads the layout again when its epoch has changed. A migration can therefore wait
//! until all processes follow a change of the layout. A process that could not check the epoch for `MAX_LAYOUT_AGE` answers
//! no requests and commits nothing until it has, unless nothing can change the layout and the process was not suspended for as long.

use super::day_states::{self, interrupt_days};
use super::script::LoadedScript;
use super::store::Store;
use crate::domain::config::Config;
use crate::domain::day::Calendar;
use crate::domain::error::ConnectError;
use crate::domain::ids::Name;
use crate::redis::permissions::Permissions;
use redis::RedisError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;
use tokio::sync::watch;

/// The heartbeat of a member of a group.
pub static HEARTBEAT: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::new(include_str!("../lua/heartbeat.lua")));

/// Commands that this file sends.
const PERMISSIONS: &[&str] = &["ZREM {processes} m", "EVALSHA x 1 {processes}"];
/// The commands of heartbeat.lua on the key of processes.
const HEARTBEAT_PERMISSIONS: &[&str] = &[
    "ZREMRANGEBYSCORE {processes} -inf 0",
    "ZRANGE {processes} 0 -1",
    "ZADD {processes} 0 m",
];

/// The commands of [`live_consumers`].
pub const CONSUMER_PERMISSIONS: &[&str] = &["TIME", "ZRANGE {consumers} 0 -1"];

/// The interval between heartbeats.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// How long a process without heartbeats counts as live.
const LIFETIME: Duration = Duration::from_secs(5);

/// The permissions that heartbeats require.
pub fn required_permissions() -> Permissions {
    Permissions::of_commands(PERMISSIONS)
        .and(Permissions::of_commands(HEARTBEAT_PERMISSIONS))
        .and(Permissions::of_commands(&["TIME"]))
        .and(Permissions::of_commands(day_states::PERMISSIONS))
}

/// A live process, as its heartbeat names it: `{pid}-{random}/{epoch}/{milliseconds}`, or `{pid}-{random}-{counting}/...` if it changes
/// counters of facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveProcess {
    /// Its process ID and a random number.
    pub id: String,
    /// The epoch of the layout that it follows.
    pub epoch: u64,
}

impl LiveProcess {
    fn parse(name: &str) -> Option<LiveProcess> {
        let mut parts = name.split('/');
        let (id, epoch) = (parts.next()?, parts.next()?.parse().ok()?);
        parts.next()?;
        Some(LiveProcess {
            id: id.to_owned(),
            epoch,
        })
    }

    /// How the process changes counters of facts (`Config::counting`). `None` if it does not change any.
    pub fn counting(&self) -> Option<&str> {
        self.id.split('-').nth(2)
    }

    /// The process ID in a name of a process or a consumer.
    pub fn pid_of(name: &str) -> &str {
        name.split('-').next().unwrap_or(name)
    }
}

/// The live processes that follow an earlier epoch. A heartbeat of an earlier epoch expires later than the process has followed the
/// next one, so that the latest of a process counts.
pub fn processes_behind(live: &[LiveProcess], epoch: u64) -> Vec<LiveProcess> {
    let mut latest: BTreeMap<&str, u64> = BTreeMap::new();
    for process in live {
        let latest = latest.entry(&process.id).or_default();
        *latest = process.epoch.max(*latest);
    }
    let behind = latest.into_iter().filter(|(_, followed)| *followed < epoch);
    let process = |(id, epoch): (&str, u64)| LiveProcess {
        id: id.to_owned(),
        epoch,
    };
    behind.map(process).collect()
}

/// Whether a live process follows an earlier epoch.
pub fn is_anyone_behind(live: &[LiveProcess], epoch: u64) -> bool {
    !processes_behind(live, epoch).is_empty()
}

/// The names of the live consumers.
///
/// # Errors
/// The server is unavailable.
pub async fn live_consumers(store: &Store) -> Result<Vec<String>, RedisError> {
    live_members(store, store.keys().consumers()).await
}

/// The live processes.
///
/// # Errors
/// The server is unavailable.
pub async fn live_processes(store: &Store) -> Result<Vec<LiveProcess>, RedisError> {
    let names = live_members(store, store.keys().processes()).await?;
    let names = names.iter();
    Ok(names.filter_map(|name| LiveProcess::parse(name)).collect())
}

/// The names of the live members of a group: a sorted set, scored by the expiry of their heartbeats.
///
/// # Errors
/// The server is unavailable.
pub async fn live_members(store: &Store, key: &str) -> Result<Vec<String>, RedisError> {
    let mut connection = store.reads();
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(&mut connection).await?;
    let mut cmd = redis::cmd("ZRANGE");
    cmd.arg(key)
        .arg(seconds * 1_000 + micros / 1_000)
        .arg("+inf")
        .arg("BYSCORE");
    cmd.query_async(&mut connection).await
}

/// Sends a heartbeat of a member of a group. `name` ends in `/` and the time to live in milliseconds. Returns the live members.
///
/// # Errors
/// The server is unavailable.
pub async fn send_heartbeat(
    store: &Store,
    key: &str,
    name: &str,
    lifetime: Duration,
) -> Result<Vec<String>, RedisError> {
    let mut call = HEARTBEAT.script.key(key);
    call.arg(name).arg(lifetime.as_millis() as u64);
    call.invoke_async(&mut store.commands()).await
}

/// The process ID of a consumer whose process sends no heartbeat: its version does not know that the layout changes.
pub fn consumer_without_heartbeat(live: &[LiveProcess], consumers: &[String]) -> Option<String> {
    let processes: BTreeSet<&str> = live.iter().map(|process| process.id.as_str()).collect();
    let mut known: BTreeMap<&str, i64> = BTreeMap::new();
    for id in processes {
        *known.entry(LiveProcess::pid_of(id)).or_default() += 1;
    }
    for consumer in consumers {
        *known.entry(LiveProcess::pid_of(consumer)).or_default() -= 1;
    }
    let missing = known.into_iter().find(|(_, count)| *count < 0);
    missing.map(|(pid, _)| pid.to_owned())
}

/// How a process counts.
struct Counting {
    /// How it changes counters of facts (`Config::counting`).
    settings: String,
    /// The metrics with counts by day.
    daily: BTreeSet<Name>,
    calendar: Calendar,
}

/// The heartbeats of a store of this process.
pub struct ProcessMember {
    store: Store,
    id: String,
    /// How the process counts; `None` if it does not.
    counting: Option<Counting>,
    /// The name of the last heartbeat.
    name: Option<String>,
}

impl ProcessMember {
    /// A member that has sent no heartbeat.
    pub fn new(store: Store) -> ProcessMember {
        ProcessMember {
            store,
            id: format!("{}-{:016x}", std::process::id(), fastrand::u64(..)),
            counting: None,
            name: None,
        }
    }

    /// A member of a process that counts.
    pub fn counting(store: Store, config: &Config) -> ProcessMember {
        let (member, settings) = (ProcessMember::new(store), config.counting());
        ProcessMember {
            id: format!("{}-{settings}", member.id),
            counting: Some(Counting {
                settings,
                daily: config
                    .metrics
                    .daily()
                    .map(|(name, _)| name.clone())
                    .collect(),
                calendar: config.days.calendar(),
            }),
            ..member
        }
    }

    /// If the layout does not say that all processes count as this one does, records that they differ. Returns the epoch of the layout that
    /// says so: another process may compare counters until it follows it.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn stop_other_counting(&self) -> Result<Option<u64>, ConnectError> {
        let (recorded, own) = (self.store.layout(), self.counting.as_ref());
        match own.filter(|own| own.settings != recorded.counting) {
            None => Ok(None),
            Some(_) if recorded.counting.is_empty() => Ok(Some(recorded.epoch)),
            Some(_) => Ok(Some(self.store.record_counting("").await?)),
        }
    }

    /// Records which counts by day this process is not going to keep. To be called when no process compares counters any more, before this one
    /// counts.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn interrupt_days(&self) -> Result<(), RedisError> {
        match &self.counting {
            Some(own) => interrupt_days(&self.store, (&own.daily, &own.calendar)).await,
            None => Ok(()),
        }
    }

    /// The ID of this process.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Reads the layout again if its epoch has changed, and reports the epoch. Returns the live processes.
    ///
    /// # Errors
    /// The server is unavailable, or a newer version changed the layout.
    pub async fn heartbeat(&mut self) -> Result<Vec<LiveProcess>, ConnectError> {
        let mut epoch = self.store.refresh_layout().await?;
        if self.name.is_some()
            && let Some(differing) = self.stop_other_counting().await?
            && differing > epoch
        {
            // Others took this process for dead, and agreed without it.
            epoch = differing;
            self.interrupt_days().await?;
        }
        let name = format!("{}/{epoch}/{}", self.id, LIFETIME.as_millis());
        let key = self.store.keys().processes();
        let members = send_heartbeat(&self.store, key, &name, LIFETIME).await?;
        let previous = self.name.replace(name.clone());
        if let Some(previous) = previous.filter(|previous| *previous != name) {
            self.remove(&previous).await?;
        }
        let own = format!("{}/", self.id);
        let others = members
            .iter()
            .filter(|member| !member.starts_with(&own) || **member == name);
        Ok(others.filter_map(|name| LiveProcess::parse(name)).collect())
    }

    /// Sends heartbeats until `finished` turns true, and then leaves.
    pub async fn run(mut self, mut finished: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(HEARTBEAT_INTERVAL) => {}
                _ = finished.wait_for(|finished| *finished) => break,
            }
            if let Err(error) = self.heartbeat().await {
                tracing::warn!(%error, "the layout of the data could not be checked");
            }
        }
        if let Err(error) = self.leave().await {
            tracing::debug!(%error, "the last heartbeat will expire");
        }
    }

    /// Removes this process from the live ones.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn leave(&mut self) -> Result<(), RedisError> {
        match self.name.take() {
            Some(name) => self.remove(&name).await,
            None => Ok(()),
        }
    }

    async fn remove(&self, name: &str) -> Result<(), RedisError> {
        let mut cmd = redis::cmd("ZREM");
        cmd.arg(self.store.keys().processes()).arg(name);
        cmd.exec_async(&mut self.store.commands()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(id: &str, epoch: u64) -> LiveProcess {
        LiveProcess {
            id: id.to_owned(),
            epoch,
        }
    }

    #[test]
    fn the_latest_heartbeat_of_a_process_counts() {
        for live in [
            [process("1-a", 2), process("1-a", 1), process("2-b", 2)],
            [process("1-a", 1), process("1-a", 2), process("2-b", 2)],
        ] {
            assert!(!is_anyone_behind(&live, 2));
            assert!(is_anyone_behind(&live, 3));
        }
        let live = [process("1-a", 1), process("2-b", 2)];
        assert_eq!(processes_behind(&live, 2), [process("1-a", 1)]);
        assert!(!is_anyone_behind(&[], 2));
    }

    #[test]
    fn each_consumer_needs_a_process_of_its_own() {
        // Two heartbeats of one process, and two consumers with its process ID: containers may share IDs.
        let live = [process("1-a", 2), process("1-a", 1), process("2-b", 2)];
        let consumers = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        let missing = |names: &[&str]| consumer_without_heartbeat(&live, &consumers(names));
        assert_eq!(missing(&["1-x", "2-y"]), None);
        assert_eq!(missing(&["1-x", "1-y"]), Some("1".to_owned()));
        assert_eq!(missing(&["3-x"]), Some("3".to_owned()));
    }

    #[test]
    fn names_of_processes_are_parsed() {
        let process = LiveProcess::parse("12-00ff/7/5000").expect("a process");
        assert_eq!((process.id.as_str(), process.epoch), ("12-00ff", 7));
        assert_eq!(LiveProcess::pid_of(&process.id), "12");
        for name in ["12-00ff/5000", "12-00ff/x/5000", ""] {
            assert_eq!(LiveProcess::parse(name), None, "{name}");
        }
    }
}
