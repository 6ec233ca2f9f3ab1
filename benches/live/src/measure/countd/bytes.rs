//! The memory of an entity: its counters, and everything else that countd keeps in Redis.

use std::thread::sleep;
use std::time::Duration;

use crate::driver::connection::BulkWriter;
use crate::driver::countd::{Countd, Metrics, Storage, Target};
use crate::driver::programs::Programs;
use crate::driver::server::{Server, Workdir};
use crate::error::Result;
use crate::measure::countd::consumer::wait_until_counted;
use crate::measure::memory::MemoryBaseline;
use crate::workload::counts::{FIELD_NAMES, SplitMix, heavy_tail};
use crate::workload::events::{PARTITIONS, event, partition};
use crate::workload::ids::{Arrival, Distribution};
use crate::workload::scale::{CountdScale, Scale};

/// Entities that warm up a server.
const WARM_UP: u64 = 20_000;
/// How long a consumer has nothing to count before it is stopped. It trims the logs meanwhile, every two seconds.
const IDLE: Duration = Duration::from_secs(5);
/// Events that are appended before they are counted.
const EVENTS_AT_ONCE: u64 = 200_000;

/// The bytes of an entity.
pub struct EntityBytes {
    /// How the counters are stored.
    pub storage: Storage,
    /// The ids of the entities, in the order in which they were created.
    pub ids: Distribution,
    /// The number of entities.
    pub entities: u64,
    /// The counters, with their keys.
    pub counters: f64,
    /// Everything.
    pub all: f64,
}

/// Measures each storage with the same entities. Objects take the same bytes in every order.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<Vec<EntityBytes>> {
    let scale = &scale.countd;
    let entities = scale.entities;
    let cases = [
        (Storage::Table, Arrival::Ascending(entities)),
        (Storage::Table, Arrival::Random),
        (Storage::Object, Arrival::Ascending(entities)),
    ];
    let mut results = Vec::new();
    for (storage, arrival) in cases {
        let distribution = Distribution::Snowflakes3y(arrival);
        let [storage_name, order] = [storage.name(), distribution.name()];
        eprintln!("bench: countd, memory, {entities} {storage_name} entities, {order}");
        let dir = &Workdir::new()?;
        let server = &Server::start(programs, dir, Some(&programs.module))?;
        let target = Target {
            programs,
            server,
            dir,
            storage,
            metrics: Metrics::Default,
        };
        // The same for few entities: it loads scripts and allocates what the server never frees.
        fill(&target, WARM_UP, WARM_UP / u64::from(PARTITIONS))?;
        let baseline = MemoryBaseline::new(server)?;
        let ids = load(&target, distribution, entities)?;
        let counters = baseline.growth()?;
        count(&target, scale, &ids)?;
        results.push(EntityBytes {
            storage,
            ids: distribution,
            entities,
            counters: counters / entities as f64,
            all: baseline.growth()? / entities as f64,
        });
    }
    Ok(results)
}

fn fill(target: &Target, entities: u64, entity_events: u64) -> Result<()> {
    let ids = load(
        target,
        Distribution::Snowflakes3y(Arrival::Random),
        entities,
    )?;
    let scale = CountdScale {
        entity_events,
        ..Scale::quick().countd
    };
    count(target, &scale, &ids)
}

/// Creates entities with heavy-tailed counts, under the keys that countd uses. Returns their ids.
fn load(target: &Target, distribution: Distribution, entities: u64) -> Result<Vec<u64>> {
    let ids: Vec<u64> = (0..entities).map(|i| distribution.nth(i)).collect();
    let mut writer = BulkWriter::open(target.server.port())?;
    for (i, id) in (0..).zip(&ids) {
        let id_text = id.to_string();
        let mut words: Vec<String> = match target.storage {
            Storage::Table => {
                let key = format!("tab:v1:note:{}", partition(*id));
                ["CTAB.MINCRBY", &key, "LEN", "5"].map(String::from).into()
            }
            Storage::Object => {
                let key = format!("cnt:v1:note:{id}");
                ["CINT.BATCHINCR", &key, "LEN", "5"]
                    .map(String::from)
                    .into()
            }
        };
        for field in 0..FIELD_NAMES.len() as u64 {
            if target.storage == Storage::Table {
                words.push(id_text.clone());
            }
            words.extend([field.to_string(), heavy_tail(i, field).to_string()]);
        }
        writer.push(&words)?;
    }
    writer.finish()?;
    Ok(ids)
}

/// Sends events of random entities through the log and the consumer, and stops the consumer when it has trimmed the logs.
fn count(target: &Target, scale: &CountdScale, ids: &[u64]) -> Result<()> {
    target.create_schema()?;
    let countd = Countd::start(target, "consume")?;
    let mut random = SplitMix(4);
    let (mut sent, events) = (0, scale.entity_events * u64::from(PARTITIONS));
    while sent < events {
        let mut writer = BulkWriter::open(target.server.port())?;
        for _ in 0..EVENTS_AT_ONCE.min(events - sent) {
            let eid = ids[random.below(ids.len() as u64) as usize];
            let log = format!("x:cnt-update:{}", partition(eid));
            let event = event(eid, &mut random);
            writer.push(&["XADD", &log, "0-*", "e", &event])?;
            sent += 1;
        }
        writer.finish()?;
        wait_until_counted(target.server, sent)?;
    }
    sleep(IDLE);
    drop(countd);
    Ok(())
}
