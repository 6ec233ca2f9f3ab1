//! Cost of comparing counters with their facts: a full sweep, and a round that compares a sample.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::driver::connection::BulkWriter;
use crate::driver::control::Control;
use crate::driver::countd::{Countd, Metrics, Setting, Storage, Target};
use crate::driver::programs::Programs;
use crate::driver::server::{Server, Workdir};
use crate::error::Result;
use crate::workload::counts::heavy_tail;
use crate::workload::events::partition;
use crate::workload::ids::{Arrival, Distribution};
use crate::workload::scale::{CountdScale, Scale};

/// Users who like each entity, and users who collect it.
const FACTS: [u64; 2] = [3, 1];
/// The users with these facts.
const USERS: u64 = 10_000;
/// The facts of users are verified with one entity of this many.
const VERIFIED_PART: u64 = 10;
/// Entities with a wrong counter of likes.
const FORGED: u64 = 20;
/// By how much these counters are wrong. The default thresholds correct such a difference.
const DIFFERENCE: &str = "1000";
/// A round of the sample compares one entity of this many.
const SAMPLE: u64 = 5;
/// The field of the state of the reconciliation that a round sets when it begins.
const BEGUN: &str = "HEXISTS countd:reconcile round";
/// Counts the tables that a round has finished. They come last in a round.
const FINISHED: &str = "
local finished = 0
for _, field in ipairs(redis.call('HKEYS', 'countd:reconcile')) do
  if field:find('rows:v1:note:', 1, true) then finished = finished + 1 end
end
return finished";

/// Removes the state of the rounds, but not that of the sweep over keys.
const FORGET: &str = "
for _, field in ipairs(redis.call('HKEYS', 'countd:reconcile')) do
  if field:find('rows:', 1, true) or field == 'round' then redis.call('HDEL', 'countd:reconcile', field) end
end
return 0";

/// The field of the state of the verification of the facts of users that its end sets.
const VERIFIED: &str = "HEXISTS countd:transposition ended";

/// The cost of a round.
pub struct RoundCost {
    /// The entities that exist.
    pub entities: u64,
    /// The round compares one entity of this many.
    pub sample: u64,
    /// Whether no sweep precedes it, so that all keys are visited.
    pub is_first: bool,
    /// Seconds that it took, without limit of its rate.
    pub seconds: f64,
    /// CPU seconds of the server, without those of an idle countd.
    pub server_cpu: f64,
    /// CPU seconds of countd, without those of an idle one.
    pub countd_cpu: f64,
    /// CPU seconds of the server for each second of an idle countd.
    pub idle_server_cpu: f64,
}

impl RoundCost {
    /// CPU seconds of the server for each entity of the sample.
    pub fn server_cpu_each(&self) -> f64 {
        self.server_cpu * self.sample as f64 / self.entities as f64
    }
}

/// The cost of verifying the facts that are kept for users: all facts are compared with those of users, and those of users with facts.
pub struct VerificationCost {
    /// The facts.
    pub facts: u64,
    /// The users who have them.
    pub users: u64,
    /// CPU seconds of the server, without those of an idle countd.
    pub server_cpu: f64,
}

/// The results.
pub struct ReconcileCosts {
    /// A full sweep, and a round of a sample.
    pub rounds: Vec<RoundCost>,
    /// The verification of the facts of users.
    pub verification: VerificationCost,
}

/// Measures a full sweep, which corrects wrong counters, a round of a sample and a verification of the facts of users, once each: their
/// cost is CPU time.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<ReconcileCosts> {
    let scale = &scale.countd;
    eprintln!(
        "bench: countd, {} entities with facts",
        scale.compared_entities
    );
    let rounds = with_server(programs, |target| {
        let tables = load(target.server, scale.compared_entities)?;
        let mut rounds = Vec::new();
        let mut forged = 0;
        for (sample, is_first) in [(1, true), (1, false), (SAMPLE, false)] {
            eprintln!("bench: countd, a round of 1 : {sample}");
            if sample == 1 {
                forge(target.server, scale.compared_entities)?;
                forged += FORGED;
            }
            rounds.push(round(target, scale, (sample, is_first), tables)?);
            check(&mut target.server.control()?, forged)?;
        }
        Ok(rounds)
    })?;
    eprintln!("bench: countd, facts of users");
    let verification = with_server(programs, |target| {
        load(target.server, scale.compared_entities / VERIFIED_PART)?;
        verification(target, scale)
    })?;
    Ok(ReconcileCosts {
        rounds,
        verification,
    })
}

/// Measures countd on a new server, with data that was begun without facts of users.
fn with_server<T>(programs: &Programs, measure: impl FnOnce(&Target) -> Result<T>) -> Result<T> {
    let dir = &Workdir::new()?;
    let server = &Server::start(programs, dir, Some(&programs.module))?;
    let target = Target {
        programs,
        server,
        dir,
        storage: Storage::Table,
        metrics: Metrics::Facts { reverse: false },
    };
    target.create_schema()?;
    measure(&target)
}

/// Rounds begin after a while and compare as fast as they can. Facts are not kept for users, so that nothing else is compared.
fn settings(scale: &CountdScale, sample: u64) -> Vec<Setting> {
    let rate = 100 * scale.compared_entities;
    vec![
        (
            "COUNTD_RECONCILE__INTERVAL_SECONDS",
            scale.round_seconds.to_string(),
        ),
        ("COUNTD_RECONCILE__ENTITIES_PER_SECOND", rate.to_string()),
        ("COUNTD_RECONCILE__SAMPLE", sample.to_string()),
        ("COUNTD_RECONCILE__FACTS_PER_SECOND", rate.to_string()),
    ]
}

/// The entities that are compared.
fn entities_of(entities: u64) -> Distribution {
    Distribution::Snowflakes3y(Arrival::Ascending(entities))
}

/// The table of an entity.
fn table_of(id: u64) -> String {
    format!("tab:v1:note:{}", partition(id))
}

/// Makes some counters of likes wrong.
fn forge(server: &Server, entities: u64) -> Result<()> {
    let ids = entities_of(entities);
    let mut writer = BulkWriter::open(server.port())?;
    for i in 0..FORGED {
        let id = ids.nth(i * (entities / FORGED));
        let eid = id.to_string();
        writer.push(&[
            "CTAB.MINCRBY",
            &table_of(id),
            "LEN",
            "5",
            &eid,
            "1",
            DIFFERENCE,
        ])?;
    }
    writer.finish()
}

/// Creates entities with reads, likes, collects and the facts of these. Returns the number of tables.
fn load(server: &Server, entities: u64) -> Result<usize> {
    let ids = entities_of(entities);
    let mut writer = BulkWriter::open(server.port())?;
    let mut tables = BTreeSet::new();
    for i in 0..entities {
        let id = ids.nth(i);
        let (eid, reads) = (id.to_string(), heavy_tail(i, 0).to_string());
        let table = table_of(id);
        let [likes, favs] = FACTS.map(|facts| facts.to_string());
        writer.push(&[
            "CTAB.MINCRBY",
            &table,
            "LEN",
            "5",
            &eid,
            "0",
            &reads,
            &eid,
            "1",
            &likes,
            &eid,
            "2",
            &favs,
        ])?;
        for (metric, facts) in ["like", "fav"].into_iter().zip(FACTS) {
            let mut words = vec!["RBM.ADD".to_string(), format!("rbm:{metric}:note:{id}")];
            words.extend(
                (0..facts).map(|user| (1_000_000 + (7_919 * i + 31 * user) % USERS).to_string()),
            );
            writer.push(&words)?;
        }
        tables.insert(table);
    }
    writer.finish()?;
    Ok(tables.len())
}

/// Starts countd and measures its next round.
fn round(
    target: &Target,
    scale: &CountdScale,
    (sample, is_first): (u64, bool),
    tables: usize,
) -> Result<RoundCost> {
    let server = target.server;
    let mut control = server.control()?;
    control.call_words(&["EVAL", FORGET, "0"])?;
    let countd = Countd::start_with(target, "all", &settings(scale, sample))?;
    let timeout = Duration::from_secs(3 * scale.round_seconds);
    // The cost of countd without a round, from when it has assigned its partitions.
    sleep(Duration::from_secs(scale.round_seconds) / 3);
    let idle = Usage::now(server, &countd)?;
    let begun = loop {
        let now = Usage::now(server, &countd)?;
        if control.call(BEGUN)? == "1" {
            break now;
        }
        if idle.at.elapsed() > timeout {
            return Err("countd begins no round".into());
        }
        sleep(Duration::from_millis(20));
    };
    loop {
        let finished: usize = control.call_words(&["EVAL", FINISHED, "0"])?.parse()?;
        if finished >= tables {
            break;
        }
        if begun.at.elapsed() > timeout {
            let error = format!("a round has finished {finished} of {tables} tables");
            return Err(error.into());
        }
        sleep(Duration::from_millis(100));
    }
    let (used, unused) = (
        Usage::now(server, &countd)?.since(&begun),
        begun.since(&idle),
    );
    let part = used.seconds / unused.seconds;
    Ok(RoundCost {
        entities: scale.compared_entities,
        sample,
        is_first,
        seconds: used.seconds,
        server_cpu: used.server_cpu - part * unused.server_cpu,
        countd_cpu: used.countd_cpu - part * unused.countd_cpu,
        idle_server_cpu: unused.server_cpu / unused.seconds,
    })
}

/// What the processes have used at a point in time.
struct Usage {
    at: Instant,
    server_cpu: f64,
    countd_cpu: f64,
}

/// What the processes have used in a time.
struct Used {
    seconds: f64,
    server_cpu: f64,
    countd_cpu: f64,
}

impl Usage {
    fn now(server: &Server, countd: &Countd) -> Result<Usage> {
        Ok(Usage {
            server_cpu: server.cpu_ns()? as f64 / 1e9,
            countd_cpu: countd.cpu_seconds()?,
            at: Instant::now(),
        })
    }

    fn since(&self, before: &Usage) -> Used {
        Used {
            seconds: (self.at - before.at).as_secs_f64(),
            server_cpu: self.server_cpu - before.server_cpu,
            countd_cpu: self.countd_cpu - before.countd_cpu,
        }
    }
}

/// Keeps the facts for users, and measures their first verification. The rounds meanwhile compare few entities.
fn verification(target: &Target, scale: &CountdScale) -> Result<VerificationCost> {
    let target = &Target {
        metrics: Metrics::Facts { reverse: true },
        ..*target
    };
    let server = target.server;
    let mut control = server.control()?;
    let off = [("COUNTD_RECONCILE__ENABLED", "false".to_string())];
    let countd = Countd::start_with(target, "consume", &off)?;
    for metric in ["like", "fav"] {
        target.run(&format!("reverse backfill {metric} --grace 0"), &off)?;
    }
    drop(countd);
    let mut settings = settings(scale, 1_000_000);
    let interval = Duration::from_secs(scale.round_seconds / 4);
    settings[0].1 = interval.as_secs().to_string();
    let countd = Countd::start_with(target, "all", &settings)?;
    // A verification begins after half of the interval at least.
    sleep(interval / 5);
    let started = Usage::now(server, &countd)?;
    sleep(interval / 5);
    let idle = Usage::now(server, &countd)?;
    let timeout = Duration::from_secs(10 * scale.round_seconds);
    while control.call(VERIFIED)? != "1" {
        if idle.at.elapsed() > timeout {
            return Err("countd does not verify the facts of users".into());
        }
        sleep(Duration::from_millis(100));
    }
    let (used, unused) = (
        Usage::now(server, &countd)?.since(&idle),
        idle.since(&started),
    );
    Ok(VerificationCost {
        facts: scale.compared_entities / VERIFIED_PART * FACTS.iter().sum::<u64>(),
        users: USERS,
        server_cpu: used.server_cpu - unused.server_cpu / unused.seconds * used.seconds,
    })
}

/// Fails unless exactly the wrong counters were corrected.
fn check(control: &mut Control, forged: u64) -> Result<()> {
    let corrected: u64 = control.call("XLEN x:audit:cntfix")?.parse()?;
    match corrected == forged {
        true => Ok(()),
        false => Err(format!("{corrected} counters were corrected instead of {forged}").into()),
    }
}
