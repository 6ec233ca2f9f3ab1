//! The reports of hot entities by which processes know those of each other.
//!
//! The report of a process is a key that expires. The processes with reports are in a sorted set, scored by the expiry of their heartbeats.

use crate::domain::config::HotConfig;
use crate::domain::ids::{Entity, Id, Name};
use crate::redis::permissions::Permissions;
use crate::redis::processes::{live_members, send_heartbeat};
use crate::redis::store::Store;
use hashbrown::HashMap;
use redis::RedisError;
use std::time::Duration;

/// The interval between two reports.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);
/// How long a report counts.
const LIFETIME: Duration = Duration::from_secs(10);

/// The commands of reports, with those of heartbeat.lua.
const PERMISSIONS: &[&str] = &[
    "TIME",
    "EVALSHA x 1 {hot}",
    "ZREMRANGEBYSCORE {hot} -inf 0",
    "ZRANGE {hot} 0 -1",
    "ZADD {hot} 0 m",
    "SET {hot_report} v",
    "GET {hot_report}",
];

/// The permissions that reports require.
pub(super) fn required_permissions() -> Permissions {
    Permissions::of_commands(PERMISSIONS)
}

/// The permissions that reading reports requires.
pub(super) fn read_permissions() -> Permissions {
    Permissions::of_commands(&["TIME", "ZRANGE {hot} 0 -1", "GET {hot_report}"])
}

/// An entity with its estimated requests.
#[derive(Clone, Debug, PartialEq)]
pub struct HotEntity {
    /// The entity.
    pub entity: Entity,
    /// Reads per second.
    pub reads: f64,
    /// Writes per second.
    pub writes: f64,
}

impl HotEntity {
    /// Requests per second.
    pub fn rate(&self) -> f64 {
        self.reads + self.writes
    }

    /// Whether it has enough requests.
    pub(super) fn is_hot(&self, settings: &HotConfig) -> bool {
        self.rate() >= f64::from(settings.min_rate)
    }
}

/// Sorts entities by their rates, the highest first.
pub(super) fn sort(entities: &mut [HotEntity]) {
    entities.sort_by(|a, b| {
        let by_rate = b.rate().total_cmp(&a.rate());
        by_rate.then_with(|| a.entity.cmp(&b.entity))
    });
}

/// The reports of this process.
pub(super) struct Reports {
    store: Store,
    id: String,
}

impl Reports {
    /// A process that has not reported.
    pub fn new(store: Store) -> Reports {
        let id = format!("{}-{:016x}", std::process::id(), fastrand::u64(..));
        Reports { store, id }
    }

    /// Reports entities. Returns those of all processes, sorted. Three round trips.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn exchange(&self, own: &[HotEntity]) -> Result<Vec<HotEntity>, RedisError> {
        let (keys, lifetime) = (self.store.keys(), LIFETIME.as_millis() as u64);
        let mut cmd = redis::cmd("SET");
        cmd.arg(keys.hot_report(&self.id)).arg(encode(own));
        cmd.arg("PX").arg(lifetime);
        cmd.exec_async(&mut self.store.commands()).await?;
        let name = format!("{}/{lifetime}", self.id);
        let names = send_heartbeat(&self.store, keys.hot_processes(), &name, LIFETIME).await?;
        read(&self.store, &names).await
    }
}

/// The entities that all processes report, sorted.
///
/// # Errors
/// Redis is unavailable.
pub(super) async fn read_all(store: &Store) -> Result<Vec<HotEntity>, RedisError> {
    let names = live_members(store, store.keys().hot_processes()).await?;
    read(store, &names).await
}

/// The sum of the reports of processes, sorted. A report that has expired, or is malformed, counts as empty.
async fn read(store: &Store, names: &[String]) -> Result<Vec<HotEntity>, RedisError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let mut pipeline = redis::pipe();
    for name in names {
        let id = name.split('/').next().unwrap_or(name);
        pipeline.cmd("GET").arg(store.keys().hot_report(id));
    }
    let reports: Vec<Option<Vec<u8>>> = pipeline.query_async(&mut store.reads()).await?;
    let reports = reports.into_iter().flatten();
    Ok(sum(reports.flat_map(|report| decode(&report))))
}

/// A report: a JSON array of type, ID, reads and writes per second.
fn encode(entities: &[HotEntity]) -> Vec<u8> {
    let rows = entities.iter();
    let rows = rows.map(|hot| (&hot.entity.etype, &hot.entity.eid, hot.reads, hot.writes));
    // Strings and finite numbers can always be serialized.
    serde_json::to_vec(&rows.collect::<Vec<_>>()).unwrap_or_default()
}

fn decode(report: &[u8]) -> Vec<HotEntity> {
    let rows: Vec<(Name, Id, f64, f64)> = serde_json::from_slice(report).unwrap_or_default();
    let rows = rows.into_iter();
    rows.map(|(etype, eid, reads, writes)| HotEntity {
        entity: Entity { etype, eid },
        reads,
        writes,
    })
    .collect()
}

fn sum(entities: impl Iterator<Item = HotEntity>) -> Vec<HotEntity> {
    let mut sums: HashMap<Entity, (f64, f64)> = HashMap::new();
    for hot in entities {
        let (reads, writes) = sums.entry(hot.entity).or_default();
        *reads += hot.reads;
        *writes += hot.writes;
    }
    let sums = sums.into_iter().map(|(entity, (reads, writes))| HotEntity {
        entity,
        reads,
        writes,
    });
    let mut sums: Vec<HotEntity> = sums.collect();
    sort(&mut sums);
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::keys::testing::entity;

    fn hot(eid: &str, reads: f64, writes: f64) -> HotEntity {
        HotEntity {
            entity: entity("note", eid),
            reads,
            writes,
        }
    }

    #[test]
    fn reports_are_added_up_and_sorted() {
        let reports = [
            encode(&[hot("a", 10.0, 1.5), hot("b", 20.0, 0.0)]),
            encode(&[hot("a", 10.0, 0.0)]),
            b"nonsense".to_vec(),
            br#"[["note","a:b",1.0,1.0]]"#.to_vec(),
        ];
        let all = sum(reports.iter().flat_map(|report| decode(report)));
        assert_eq!(all, [hot("a", 20.0, 1.5), hot("b", 20.0, 0.0)]);
    }
}
