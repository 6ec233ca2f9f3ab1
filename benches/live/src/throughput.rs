//! Runs the comparisons of a stage, each at both depths, in several epochs of fresh processes.

use crate::Result;
use crate::chart::Bar;
use crate::options::Options;
use crate::rounds::{Runner, Sample, interleave};
use crate::server::{Server, Workdir};
use crate::stats::Spread;
use crate::workload::{Comparison, Side, Store, stores};

/// Pipelined, as the bars ask, and not.
pub const DEPTHS: [usize; 2] = [64, 1];
/// The depth at which the bars hold.
pub const BAR_DEPTH: usize = 64;

/// What a comparison measured at one depth: for each side its rounds, those of one epoch after those of another.
pub type Samples = Vec<Vec<Sample>>;

/// A comparison and what came out.
pub struct Outcome {
    /// What was compared.
    pub comparison: Comparison,
    /// For each of [`DEPTHS`].
    pub samples: [Samples; 2],
    /// Rounds in each epoch.
    pub rounds: usize,
}

/// Measures comparisons that share their processes.
pub fn measure(stage: Vec<Comparison>, options: &Options) -> Result<Vec<Outcome>> {
    let mut outcomes: Vec<Outcome> = stage
        .into_iter()
        .map(|c| Outcome::new(c, options))
        .collect();
    for epoch in 0..options.scale.epochs {
        let processes = Processes::start(&outcomes, epoch, options)?;
        for outcome in &mut outcomes {
            outcome.add_epoch(&processes, epoch, options)?;
        }
    }
    Ok(outcomes)
}

/// One process for each store, freshly loaded.
struct Processes(Vec<(Store, Server, Workdir)>);

impl Processes {
    /// Which process is started first, and so gets the first pages of memory, changes with the epoch.
    fn start(outcomes: &[Outcome], epoch: usize, options: &Options) -> Result<Processes> {
        let mut wanted: Vec<Store> = Vec::new();
        for outcome in outcomes {
            let new = stores(std::slice::from_ref(&outcome.comparison));
            wanted.extend(
                new.iter()
                    .filter(|s| !wanted.contains(s))
                    .collect::<Vec<_>>(),
            );
        }
        let places = wanted.len();
        wanted.rotate_left(epoch % places);
        let start = |store: Store| {
            let dir = Workdir::new()?;
            let server = store.data.start(options, &dir)?;
            Ok((store, server, dir))
        };
        Ok(Processes(
            wanted.into_iter().map(start).collect::<Result<_>>()?,
        ))
    }

    fn server(&self, store: Store) -> Result<&Server> {
        let found = self.0.iter().find(|(s, ..)| *s == store);
        found
            .map(|(_, server, _)| server)
            .ok_or_else(|| "a side has no process".into())
    }
}

impl Outcome {
    fn new(comparison: Comparison, options: &Options) -> Outcome {
        let none = || comparison.sides.iter().map(|_| Vec::new()).collect();
        Outcome {
            samples: [none(), none()],
            rounds: options.scale.rounds,
            comparison,
        }
    }

    fn add_epoch(&mut self, processes: &Processes, epoch: usize, options: &Options) -> Result<()> {
        let (comparison, scale) = (&self.comparison, &options.scale);
        for (depth, samples) in DEPTHS.into_iter().zip(&mut self.samples) {
            let connect = |side: &Side| {
                let server = processes.server(side.store)?;
                Runner::new(server, side, depth, comparison.pick_of(side))
            };
            let mut runners: Vec<Runner> = comparison
                .sides
                .iter()
                .map(connect)
                .collect::<Result<_>>()?;
            let seed = epoch as u64 + 1;
            let fresh = interleave(&mut runners, scale.rounds, scale.round(depth), seed)?;
            for (all, fresh) in samples.iter_mut().zip(fresh) {
                all.extend(fresh);
            }
        }
        Ok(())
    }

    /// Units per second.
    pub fn per_second(&self, sample: &Sample) -> f64 {
        (sample.operations * self.comparison.units) as f64 / sample.wall.as_secs_f64()
    }

    /// The server's nanoseconds per unit.
    pub fn cpu(&self, sample: &Sample) -> f64 {
        sample.server_ns as f64 / (sample.operations * self.comparison.units) as f64
    }

    /// Throughput of each side at the depth of the bars, for a chart.
    pub fn bars(&self) -> Vec<Bar> {
        let sides = self.comparison.sides.iter().zip(&self.samples[0]);
        let bar = |(i, (side, samples)): (usize, (&Side, &Vec<Sample>))| {
            let speed = Spread::of(samples.iter().map(|s| self.per_second(s)));
            Bar {
                label: side.label.clone(),
                value: speed.median(),
                range: Some((speed.low(), speed.high())),
                ours: i == 0 || side.label.starts_with("CINT.") || side.label.starts_with("CTAB."),
            }
        };
        sides.enumerate().map(bar).collect()
    }
}
