//! The section on countd.

use crate::driver::countd::Storage;
use crate::measure::countd::results::{
    Alone, ConsumerRates, CountdResults, Cpu, Few, RequestKind, RequestRate,
};
use crate::measure::countd::sparse::{ALONE, RATES};
use crate::measure::stats::Spread;
use crate::report::check::{Check, Threshold};
use crate::report::figures::Figures;
use crate::report::section::Section;
use crate::report::table::Table;
use crate::workload::events::EntityPool;
use crate::workload::scale::CountdScale;

/// The name in `--only`.
pub const NAME: &str = "countd";
/// The heading.
pub const TITLE: &str = "countd: log, consumer and API";

/// Minimum throughput in thousands of events, actions or entities per second.
const MIN_HOT: f64 = 500.0;
const MIN_LONG_TAIL: f64 = 200.0;
const MIN_ACTIONS: f64 = 100.0;
const MIN_ENTITIES: f64 = 300.0;
/// Minimum throughput with tables, compared with objects in the same run.
const MIN_HOT_RATIO: f64 = 1.0;
const MIN_LONG_TAIL_RATIO: f64 = 1.3;
/// Minimum throughput with counts by day, compared with none in the same run.
const MIN_DAILY_RATIO: f64 = 0.7;
const MIN_PAGE_RATIO: f64 = 0.95;
/// Minimum throughput of feeds, compared with pages of counters in the same run.
const MIN_FEED_RATIO: f64 = 0.8;
/// Single reads in thousands per second before they were made faster, with the client on the same core. At least half of the distance to the
/// bare handler in the same run must be gone.
const SINGLE_BEFORE: f64 = 23.0;
/// The size of an event in the log, in bytes, rounded to tens.
const EVENT_BYTES: f64 = 170.0;
/// Maximum number of write commands per 100 events on hot keys.
const MAX_WRITES: f64 = 1.0;
/// Maximum 99th percentile of the seconds until an action's count is visible under load.
const MAX_VISIBILITY_SECONDS: f64 = 1.0;

/// The label of a kind of request, and its name in figures.
fn labels(kind: RequestKind) -> (&'static str, &'static str) {
    match kind {
        RequestKind::Reads => (
            "`POST /actions`, 1,000 lines: reads (counted asynchronously), actions",
            "read-actions-per-s",
        ),
        RequestKind::Likes => (
            "`POST /actions`, 1,000 lines: likes (a fact, its count and its event), actions",
            "like-actions-per-s",
        ),
        RequestKind::Batches => (
            "`POST /counter/batch`, 100 entities, entities",
            "batch-entities-per-s",
        ),
        RequestKind::Feeds => (
            "`POST /feed`, 100 entities and a user, entities",
            "feed-entities-per-s",
        ),
        RequestKind::Single => ("`GET /counter/note/{id}`, requests", "single-reads-per-s"),
        RequestKind::Bare => (
            "the same requests to a bare axum handler without Redis",
            "bare-reads-per-s",
        ),
    }
}

/// The name of a pool in figures.
fn pool_name(pool: EntityPool) -> &'static str {
    match pool {
        EntityPool::Hot => "hot",
        EntityPool::LongTail => "long-tail",
    }
}

/// Formats the results.
pub fn section(results: &CountdResults, scale: &CountdScale) -> Section {
    let mut figures = Figures::default();
    let consumer = consumer_table(results, &mut figures);
    let requests = request_table(results, &mut figures);
    let visible = results.visibility();
    let [p50, p99] = [visible.median(), visible.quantile(0.99)].map(|seconds| seconds * 1e3);
    figures.add("countd.visible-p50-ms", p50, 0);
    figures.add("countd.visible-p99-ms", p99, 0);
    figures.add("countd.event-bytes", EVENT_BYTES, 0);
    let sparse = sparse_costs(results, &mut figures);
    Section {
        title: TITLE.into(),
        body: format!(
            "One core runs the server, the other countd and the client. Everything is restarted {} times; values are medians. \
             The log is filled with {} read events (as countd encodes them, about {EVENT_BYTES} bytes) and then counted by \
             `countd consume` with its default configuration, from its start to the last event; the sum of the counters is \
             compared with the number of events. *XADD* is `redis-benchmark` in the same run: one stream, the same entry, \
             pipeline depth 64. *Through log and consumer* is appending and counting, one after the other. *Writes* are all \
             write commands that the server executed meanwhile, those of scripts included. Counters are stored as rows of \
             tables, the default, or as objects (`storage = \"object\"`); both take turns. *By day* is the same with `daily = true`.\n\n{consumer}\n\
             Requests go to `countd all` over connections with one request in flight each, and share its core; what they append \
             is counted at the same time by the same process. The CPU times include all of that. Each like is sent once. Reads use the counters of a million entities. The limit of users is off.\n\n{requests}\n\
             From sending a read to seeing its count, while two connections send reads of 1,000 hot notes without pause: \
             p50 {p50:.0} ms, p99 {p99:.0} ms ({} probes).\n\n{sparse}",
            scale.repeats,
            scale.events,
            results.visibility_seconds.len()
        ),
        checks: checks(results),
        figures,
        ..Section::default()
    }
}

fn consumer_table(results: &CountdResults, figures: &mut Figures) -> String {
    let mut table = Table::new(&[
        "",
        "XADD /s",
        "appended /s",
        "counted /s",
        ": XADD",
        "through log and consumer /s",
        ": XADD",
        "writes per 100 events",
        "countd CPU, ns per event",
        "server CPU, ns per event",
    ]);
    for pool in [EntityPool::Hot, EntityPool::LongTail] {
        for storage in Storage::ALL {
            let median = |value: fn(&ConsumerRates) -> f64| {
                results.consumer_rate(pool, storage, value).median()
            };
            let (counted, writes) = (median(|f| f.consume), median(|f| f.writes));
            table.row(&[
                format!("{}, {}s", pool.label(), storage.name()),
                format!("{:.0}", median(|f| f.xadd)),
                format!("{:.0}", median(|f| f.append)),
                format!("{counted:.0}"),
                format!("{:.2} x", median(|f| f.consume / f.xadd)),
                format!("{:.0}", median(ConsumerRates::end_to_end)),
                format!("{:.2} x", median(|f| f.end_to_end() / f.xadd)),
                format!("{writes:.2}"),
                format!("{:.0}", median(|f| f.countd_cpu * 1e9)),
                format!("{:.0}", median(|f| f.server_cpu * 1e9)),
            ]);
            let name = |what: &str| match storage {
                Storage::Table => format!("countd.{}.{what}", pool_name(pool)),
                Storage::Object => format!("countd.{}.object.{what}", pool_name(pool)),
            };
            figures.add(name("counted-per-s"), counted, 0);
            figures.add(name("appended-per-s"), median(|f| f.append), 0);
            figures.add(name("writes-per-100-events"), writes, 2);
            let costs = [median(|f| f.countd_cpu), median(|f| f.server_cpu)];
            add_costs(figures, |part| name(&format!("{part}-ns-per-event")), costs);
        }
    }
    let daily = |value: fn(&ConsumerRates) -> f64| results.daily_rate(value).median();
    let (counted, writes) = (daily(|f| f.consume), daily(|f| f.writes));
    table.row(&[
        format!(
            "{}, {}s, by day",
            EntityPool::Hot.label(),
            Storage::Table.name()
        ),
        format!("{:.0}", daily(|f| f.xadd)),
        format!("{:.0}", daily(|f| f.append)),
        format!("{counted:.0}"),
        format!("{:.2} x", daily(|f| f.consume / f.xadd)),
        format!("{:.0}", daily(ConsumerRates::end_to_end)),
        format!("{:.2} x", daily(|f| f.end_to_end() / f.xadd)),
        format!("{writes:.2}"),
        format!("{:.0}", daily(|f| f.countd_cpu * 1e9)),
        format!("{:.0}", daily(|f| f.server_cpu * 1e9)),
    ]);
    figures.add("countd.hot.daily.counted-per-s", counted, 0);
    figures.add("countd.hot.daily.writes-per-100-events", writes, 2);
    let costs = [daily(|f| f.countd_cpu), daily(|f| f.server_cpu)];
    let name = |part: &str| format!("countd.hot.daily.{part}-ns-per-event");
    add_costs(figures, name, costs);
    table.finish()
}

/// Adds the CPU seconds of countd and of the server for an event or a request, which `countd size` reads. `name` has the name of the part.
fn add_costs(figures: &mut Figures, name: impl Fn(&str) -> String, [countd, server]: [f64; 2]) {
    figures.add(name("countd"), countd * 1e9, 0);
    figures.add(name("redis"), server * 1e9, 0);
}

/// The name of a kind of request in figures, without its unit: `countd.like-actions` for `like-actions-per-s`.
fn cost_name(prefix: &str, name: &str) -> String {
    format!("{prefix}{}", name.trim_end_matches("-per-s"))
}

fn request_table(results: &CountdResults, figures: &mut Figures) -> String {
    let mut table = Table::new(&[
        "",
        "per second",
        "quartiles",
        "client CPU, ns each",
        "countd CPU, ns each",
        "server CPU, ns each",
    ]);
    let mut row = |kind, storage| {
        let (label, name) = labels(kind);
        let (label, prefix) = match storage {
            Storage::Table => (label.to_owned(), "countd."),
            Storage::Object => (format!("{label}, stored as objects"), "countd.object."),
        };
        let of = |value: fn(&RequestRate) -> f64| results.rate_with(kind, storage, value);
        let rate = of(|r| r.per_second);
        let costs: [fn(&RequestRate) -> f64; 3] =
            [|r| r.client_cpu, |r| r.countd_cpu, |r| r.server_cpu];
        let [client, countd, server] = costs.map(|part| of(part).median());
        let nanoseconds = |seconds: f64| format!("{:.0}", seconds * 1e9);
        table.row(&[
            label,
            format!("{:.0}", rate.median()),
            format!("{:.0} .. {:.0}", rate.low(), rate.high()),
            nanoseconds(client),
            nanoseconds(countd),
            nanoseconds(server),
        ]);
        figures.add(format!("{prefix}{name}"), rate.median(), 0);
        let name = cost_name(prefix, name);
        figures.add(format!("{name}-client-ns"), client * 1e9, 0);
        add_costs(
            figures,
            |part| format!("{name}-{part}-ns"),
            [countd, server],
        );
    };
    for kind in [
        RequestKind::Reads,
        RequestKind::Likes,
        RequestKind::Batches,
        RequestKind::Feeds,
        RequestKind::Single,
        RequestKind::Bare,
    ] {
        row(kind, Storage::Table);
    }
    row(RequestKind::Batches, Storage::Object);
    table.finish()
}

/// The costs when few actions come.
fn sparse_costs(results: &CountdResults, figures: &mut Figures) -> String {
    let median = |value: fn(&Few) -> Cpu| {
        let part = |part: fn(Cpu) -> f64| {
            Spread::of(results.few.iter().map(|few| part(value(few)))).median()
        };
        // Noise can make the intercept of a line negative.
        [part(|cpu| cpu.countd), part(|cpu| cpu.server)].map(|seconds| seconds.max(0.0))
    };
    let mut table = Table::new(&[
        "",
        "countd CPU, ns per action",
        "server CPU, ns per action",
        "countd CPU, ns per second",
        "server CPU, ns per second",
    ]);
    let mut row = |label: &str, name: &str, action: Option<[f64; 2]>, second: [f64; 2]| {
        let actions = match action {
            Some(action) => {
                add_costs(
                    figures,
                    |part| format!("countd.{name}.{part}-ns-per-action"),
                    action,
                );
                action.map(|seconds| format!("{:.0}", seconds * 1e9))
            }
            None => [String::new(), String::new()],
        };
        add_costs(
            figures,
            |part| format!("countd.{name}.{part}-ns-per-second"),
            second,
        );
        let [countd, server] = second.map(|seconds| format!("{:.0}", seconds * 1e9));
        table.row(&[
            label.to_owned(),
            actions[0].clone(),
            actions[1].clone(),
            countd,
            server,
        ]);
    };
    row(
        "reads",
        "sparse-reads",
        Some(median(|few| few.reads.action)),
        median(|few| few.reads.second),
    );
    row(
        "likes",
        "sparse-likes",
        Some(median(|few| few.likes.action)),
        median(|few| few.likes.second),
    );
    row("none", "idle", None, median(|few| few.idle));
    let mut alone = |name: &str, of: fn(&Few) -> Alone| {
        let part = |part: fn(Alone) -> f64| {
            let found = Spread::of(results.few.iter().map(|few| part(of(few)))).median();
            found.max(0.0)
        };
        let costs = [
            part(|alone| alone.cpu.countd),
            part(|alone| alone.cpu.server),
        ];
        add_costs(
            figures,
            |part| format!("countd.{name}.{part}-ns-per-request"),
            costs,
        );
        let p50 = part(|alone| alone.p50) * 1e6;
        figures.add(format!("countd.{name}.p50-us"), p50, 0);
        let [countd, server] = costs.map(|seconds| seconds * 1e9);
        format!(
            "{countd:.0} ns of countd and {server:.0} ns of the server, and {p50:.0} µs until its response (median, without the client)"
        )
    };
    let reads = alone("alone-reads", |few| few.alone_reads);
    let likes = alone("alone-likes", |few| few.alone_likes);
    let [few, many] = RATES;
    format!(
        "Low load: {few} and {many} actions per second to `countd all`, in a request every 5 ms. Most actions have a partition of their own in each commit, \
         and all partitions are polled for them. Two rates give the cost of an action and that of a second.\n\n{}\n\
         At {ALONE:.0} requests per second (Poisson arrivals), most find countd and the server idle, with cold caches. \
         Then `GET /counter` takes {reads}, and `POST /action/like` takes {likes}, without what the table has.\n",
        table.finish()
    )
}

/// Hot keys with counts by day, against the same without.
fn daily_ratio(results: &CountdResults) -> Check {
    let plain = |value: fn(&ConsumerRates) -> f64| {
        let rate = results.consumer_rate(EntityPool::Hot, Storage::Table, value);
        rate.median()
    };
    let daily = |value: fn(&ConsumerRates) -> f64| results.daily_rate(value).median();
    let cost = |f: &ConsumerRates| f.countd_cpu + f.server_cpu;
    Check {
        by_cpu: Some(plain(cost) / daily(cost)),
        ..Check::speed(
            "countd, events counted, 1,000 hot keys, counts by day : without".into(),
            daily(|f| f.consume) / plain(|f| f.consume),
            Some(MIN_DAILY_RATIO),
        )
    }
}

fn checks(results: &CountdResults) -> Vec<Check> {
    let (hot, tail) = (EntityPool::Hot, EntityPool::LongTail);
    let consumed = |pool| results.consumer_rate(pool, Storage::Table, |f| f.consume / 1e3);
    let consumed_ratio = |what: &str, pool, min| {
        let median = |storage| results.consumer_rate(pool, storage, |f| f.consume).median();
        let cost = |storage| {
            let cost = |f: &ConsumerRates| f.countd_cpu + f.server_cpu;
            results.consumer_rate(pool, storage, cost).median()
        };
        let ratio = median(Storage::Table) / median(Storage::Object);
        Check {
            by_cpu: Some(cost(Storage::Object) / cost(Storage::Table)),
            ..Check::speed(what.into(), ratio, Some(min))
        }
    };
    let end_to_end_ratio = |pool| {
        let median = |storage| {
            let rate = results.consumer_rate(pool, storage, ConsumerRates::end_to_end);
            rate.median()
        };
        median(Storage::Table) / median(Storage::Object)
    };
    let pages = |storage| {
        let rate = results.rate_with(RequestKind::Batches, storage, |r| r.per_second);
        rate.median()
    };
    let speed = |kind| results.rate(kind, |r| r.per_second).median();
    let cpu = |kind| results.rate(kind, |r| r.countd_cpu + r.server_cpu).median();
    let requested = |kind| results.rate(kind, |r| r.per_second / 1e3);
    let at_least = |what: &str, rate: Spread, threshold| Check {
        quartiles: Some((rate.low(), rate.high())),
        ..Check::absolute(
            what.into(),
            rate.median(),
            "thousand/s",
            Threshold::AtLeast(threshold),
        )
    };
    let at_most = |what: &str, value, unit, threshold| {
        Check::absolute(what.into(), value, unit, Threshold::AtMost(threshold))
    };
    vec![
        at_least(
            "countd, events counted, 1,000 hot keys",
            consumed(hot),
            MIN_HOT,
        ),
        at_least(
            "countd, events counted, long tail",
            consumed(tail),
            MIN_LONG_TAIL,
        ),
        consumed_ratio(
            "countd, events counted, 1,000 hot keys, tables : objects",
            hot,
            MIN_HOT_RATIO,
        ),
        consumed_ratio(
            "countd, events counted, long tail, tables : objects",
            tail,
            MIN_LONG_TAIL_RATIO,
        ),
        Check::speed(
            "countd, events through log and consumer, long tail, tables : objects".into(),
            end_to_end_ratio(tail),
            Some(MIN_LONG_TAIL_RATIO),
        ),
        daily_ratio(results),
        Check::speed(
            "countd, POST /counter/batch of 100, tables : objects".into(),
            pages(Storage::Table) / pages(Storage::Object),
            Some(MIN_PAGE_RATIO),
        ),
        Check {
            by_cpu: Some(cpu(RequestKind::Batches) / cpu(RequestKind::Feeds)),
            ..Check::speed(
                "countd, POST /feed : POST /counter/batch of 100, entities".into(),
                speed(RequestKind::Feeds) / speed(RequestKind::Batches),
                Some(MIN_FEED_RATIO),
            )
        },
        // The CPU time of countd alone, because the client takes a part of each request that is the same for both.
        Check::cost(
            "countd, CPU of GET /counter : of a bare axum handler".into(),
            results.rate(RequestKind::Single, |r| r.countd_cpu).median()
                / results.rate(RequestKind::Bare, |r| r.countd_cpu).median(),
            None,
        ),
        at_least(
            "countd, GET /counter, requests: half of the way from 23 thousand/s to a bare axum handler",
            requested(RequestKind::Single),
            ((SINGLE_BEFORE + requested(RequestKind::Bare).median()) * 5.0).round() / 10.0,
        ),
        at_least(
            "countd, POST /actions of reads, actions",
            requested(RequestKind::Reads),
            MIN_ACTIONS,
        ),
        at_least(
            "countd, POST /counter/batch of 100, entities",
            requested(RequestKind::Batches),
            MIN_ENTITIES,
        ),
        at_most(
            "countd, writes to Redis per 100 events, 1,000 hot keys",
            results
                .consumer_rate(hot, Storage::Table, |f| f.writes)
                .median(),
            "writes",
            MAX_WRITES,
        ),
        at_most(
            "countd, action to visible count under load, p99",
            results.visibility().quantile(0.99),
            "s",
            MAX_VISIBILITY_SECONDS,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::countd::results::Sparse;
    use crate::workload::scale::Scale;

    #[test]
    fn every_result_is_reported() {
        let rates = || ConsumerRates {
            xadd: 800_000.0,
            append: 700_000.0,
            consume: 600_000.0,
            writes: 0.5,
            countd_cpu: 1e-6,
            server_cpu: 1e-6,
        };
        let rate = |kind, storage| {
            let rate = RequestRate {
                per_second: 200_000.0,
                client_cpu: 1e-6,
                countd_cpu: 1e-6,
                server_cpu: 1e-6,
            };
            (kind, storage, rate)
        };
        let kinds = [
            RequestKind::Reads,
            RequestKind::Likes,
            RequestKind::Batches,
            RequestKind::Feeds,
            RequestKind::Single,
            RequestKind::Bare,
        ];
        let few = || {
            let cpu = Cpu {
                countd: 1e-6,
                server: 2e-6,
            };
            let alone = Alone { cpu, p50: 1e-4 };
            let sparse = Sparse {
                action: cpu,
                second: cpu,
            };
            Few {
                reads: sparse,
                likes: sparse,
                idle: cpu,
                alone_reads: alone,
                alone_likes: alone,
            }
        };
        let results = CountdResults {
            consumer: Storage::ALL
                .into_iter()
                .flat_map(|storage| {
                    [EntityPool::Hot, EntityPool::LongTail].map(|pool| (pool, storage, rates()))
                })
                .collect(),
            daily: vec![rates()],
            rates: Storage::ALL
                .into_iter()
                .flat_map(|storage| kinds.map(|kind| rate(kind, storage)))
                .collect(),
            visibility_seconds: vec![0.4, 0.5],
            few: vec![few()],
        };
        let section = section(&results, &Scale::full().countd);
        let met: Vec<_> = section.checks.iter().filter_map(Check::met).collect();
        let expected = [
            true, true, true, false, false, true, true, true, true, true, false, true, true,
        ];
        assert_eq!(met, expected);
        assert!(section.body.contains("p50 450 ms, p99 499 ms (2 probes)"));
        let figures = section.figures.to_json().unwrap();
        assert!(figures.contains("\"countd.hot.counted-per-s\": 600000"));
        for name in [
            "hot.countd-ns-per-event",
            "long-tail.object.redis-ns-per-event",
            "hot.daily.redis-ns-per-event",
            "like-actions-countd-ns",
            "object.batch-entities-redis-ns",
            "sparse-likes.countd-ns-per-action",
            "idle.countd-ns-per-second",
            "alone-likes.countd-ns-per-request",
        ] {
            assert!(
                figures.contains(&format!("\"countd.{name}\": 1000")),
                "{name}"
            );
        }
    }
}
