//! The section on countd: tables and bars.

use std::fmt::Write;

use super::TITLE;
use super::events::Spreading;
use crate::options::Options;
use crate::report::{Limit, Section, Verdict};
use crate::stats::Spread;

/// Events through the log and the consumer.
pub struct Flow {
    /// Entries a second that `redis-benchmark` appends.
    pub xadd: f64,
    /// Events a second that are appended.
    pub append: f64,
    /// Events a second that are counted.
    pub consume: f64,
    /// Write commands for 100 events.
    pub writes: f64,
    /// CPU seconds of countd for an event.
    pub countd_cpu: f64,
    /// CPU seconds of the server for an event.
    pub server_cpu: f64,
}

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Many actions that are counted later.
    Reads,
    /// Many actions that are facts and counted at once.
    Likes,
    /// The counters of many entities.
    Batches,
    /// The counters of one.
    Single,
}

impl Kind {
    fn label(self) -> &'static str {
        match self {
            Kind::Reads => "`POST /actions`, 1,000 lines: reads (counted later), actions",
            Kind::Likes => {
                "`POST /actions`, 1,000 lines: likes (a fact, its count and its event), actions"
            }
            Kind::Batches => "`POST /counter/batch`, 100 entities, entities",
            Kind::Single => "`GET /counter/note/{id}`, requests",
        }
    }
}

/// Requests of a kind.
pub struct Rate {
    /// Actions or entities a second.
    pub per_second: f64,
    /// CPU seconds of countd for one.
    pub countd_cpu: f64,
    /// CPU seconds of the server for one.
    pub server_cpu: f64,
}

/// All that was measured, a figure for each repeat.
#[derive(Default)]
pub struct Figures {
    /// What went through the log.
    pub flows: Vec<(Spreading, Flow)>,
    /// What the API did.
    pub rates: Vec<(Kind, Rate)>,
    /// Seconds until an action was visible, of all probes.
    pub visible: Vec<f64>,
}

impl Figures {
    fn flow(&self, spreading: Spreading, of: impl Fn(&Flow) -> f64) -> Spread {
        let flows = self.flows.iter().filter(|flow| flow.0 == spreading);
        Spread::of(flows.map(|(_, flow)| of(flow)))
    }

    fn rate(&self, kind: Kind, of: impl Fn(&Rate) -> f64) -> Spread {
        let rates = self.rates.iter().filter(|rate| rate.0 == kind);
        Spread::of(rates.map(|(_, rate)| of(rate)))
    }
}

/// What is asked of countd: events and actions and entities a second.
const HOT: f64 = 300_000.0;
const LONG_TAIL: f64 = 100_000.0;
const ACTIONS: f64 = 100_000.0;
const ENTITIES: f64 = 300_000.0;
/// Write commands for 100 events on hot keys.
const WRITES: f64 = 1.0;
/// Seconds until 99 of 100 actions are visible under load.
const VISIBLE: f64 = 1.0;

/// Describes what was measured.
pub fn section(figures: &Figures, options: &Options) -> Section {
    let load = &options.scale.countd;
    let mut body = format!(
        "One core has the server, the other one countd and the client. Everything is started anew {} times; figures are \
         medians. The log is filled with {} events of reads (as countd writes them, about 170 bytes) and then counted by \
         `countd consume` with its default configuration, from its start to the last event; the counters are added up and \
         compared with the events. *XADD* is `redis-benchmark` in the same run: one stream, the same entry, pipelines of 64. \
         *Through log and consumer* is appending and counting, one after the other. *Writes* are all write commands that \
         the server did meanwhile, those of scripts included.\n\n\
         | | XADD /s | appended /s | counted /s | : XADD | through log and consumer /s | : XADD | writes for 100 events | \
         countd CPU, ns an event | server CPU, ns an event |\n|---|---|---|---|---|---|---|---|---|---|\n",
        load.repeats, load.events
    );
    for spreading in [Spreading::Hot, Spreading::LongTail] {
        let median = |of: fn(&Flow) -> f64| figures.flow(spreading, of).median();
        let _ = writeln!(
            body,
            "| {} | {:.0} | {:.0} | {:.0} | {:.2} x | {:.0} | {:.2} x | {:.2} | {:.0} | {:.0} |",
            spreading.label(),
            median(|f| f.xadd),
            median(|f| f.append),
            median(|f| f.consume),
            median(|f| f.consume / f.xadd),
            median(through),
            median(|f| through(f) / f.xadd),
            median(|f| f.writes),
            median(|f| f.countd_cpu * 1e9),
            median(|f| f.server_cpu * 1e9),
        );
    }
    body.push_str(
        "\nRequests go to `countd all` over connections that each have one under way, and share its core; what they append is \
         counted meanwhile, by the same process. Counters are those of a million entities.\n\n\
         | | a second | quartiles | countd CPU, ns each | server CPU, ns each |\n|---|---|---|---|---|\n",
    );
    for kind in [Kind::Reads, Kind::Likes, Kind::Batches, Kind::Single] {
        let spread = figures.rate(kind, |r| r.per_second);
        let _ = writeln!(
            body,
            "| {} | {:.0} | {:.0} .. {:.0} | {:.0} | {:.0} |",
            kind.label(),
            spread.median(),
            spread.low(),
            spread.high(),
            figures.rate(kind, |r| r.countd_cpu).median() * 1e9,
            figures.rate(kind, |r| r.server_cpu).median() * 1e9
        );
    }
    let visible = Spread::of(figures.visible.iter().copied());
    let _ = writeln!(
        body,
        "\nFrom sending a read to seeing its count, while two connections send reads of 1,000 hot notes as fast as countd takes \
         them: p50 {:.0} ms, p99 {:.0} ms ({} probes).",
        visible.median() * 1e3,
        visible.quantile(0.99) * 1e3,
        figures.visible.len()
    );
    Section {
        title: TITLE.into(),
        body,
        verdicts: verdicts(figures),
        losses: Vec::new(),
        charts: Vec::new(),
    }
}

/// Events a second, if appending and counting take turns.
fn through(flow: &Flow) -> f64 {
    1.0 / (1.0 / flow.append + 1.0 / flow.consume)
}

fn verdicts(figures: &Figures) -> Vec<Verdict> {
    let (hot, tail) = (Spreading::Hot, Spreading::LongTail);
    let visible = Spread::of(figures.visible.iter().copied()).quantile(0.99);
    let rate = |kind| figures.rate(kind, |r| r.per_second);
    let thousand = |spread: &Spread| spread.median() / 1e3;
    let mut verdicts = Vec::new();
    for (what, spread, bar) in [
        (
            "countd, events counted, 1,000 hot keys",
            figures.flow(hot, |f| f.consume),
            HOT,
        ),
        (
            "countd, events counted, long tail",
            figures.flow(tail, |f| f.consume),
            LONG_TAIL,
        ),
        (
            "countd, POST /actions of reads, actions",
            rate(Kind::Reads),
            ACTIONS,
        ),
        (
            "countd, POST /counter/batch of 100, entities",
            rate(Kind::Batches),
            ENTITIES,
        ),
    ] {
        verdicts.push(Verdict {
            what: what.into(),
            value: thousand(&spread),
            limit: Limit::AtLeast(bar / 1e3),
            range: Some((spread.low() / 1e3, spread.high() / 1e3)),
            by_cpu: None,
            unit: "thousand/s",
            loses: false,
        });
    }
    let writes = figures.flow(hot, |f| f.writes).median();
    for (what, value, bar, unit) in [
        (
            "countd, writes to Redis for 100 events, 1,000 hot keys",
            writes,
            WRITES,
            "writes",
        ),
        (
            "countd, action to visible count under load, p99",
            visible,
            VISIBLE,
            "s",
        ),
    ] {
        verdicts.push(Verdict {
            what: what.into(),
            value,
            limit: Limit::AtMost(bar),
            range: None,
            by_cpu: None,
            unit,
            loses: false,
        });
    }
    verdicts
}
