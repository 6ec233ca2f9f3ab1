//! The throughput of comparisons, at both pipeline depths, in several epochs of fresh processes.

use crate::driver::programs::Programs;
use crate::driver::server::{Server, Workdir};
use crate::error::Result;
use crate::measure::rounds::{Runner, Sample, interleave};
use crate::measure::stats::Spread;
use crate::workload::comparison::{Comparison, Instance, Side, instances};
use crate::workload::scale::Scale;

/// The pipeline depths: with a pipeline, and without.
pub const DEPTHS: [usize; 2] = [64, 1];
/// The pipeline depth of charts, figures and thresholds: the first of [`DEPTHS`].
pub const MAIN_DEPTH: usize = DEPTHS[0];

/// The samples of a comparison at one pipeline depth: for each side, the rounds of all epochs in order.
pub type Samples = Vec<Vec<Sample>>;

/// A comparison and its samples.
pub struct Outcome {
    /// The comparison.
    pub comparison: Comparison,
    /// The samples for each of [`DEPTHS`].
    pub samples: [Samples; 2],
    /// Rounds in each epoch.
    pub rounds: usize,
}

/// Measures comparisons that share their processes.
pub fn measure(stage: Vec<Comparison>, programs: &Programs, scale: &Scale) -> Result<Vec<Outcome>> {
    let mut outcomes: Vec<Outcome> = stage.into_iter().map(|c| Outcome::new(c, scale)).collect();
    for epoch in 0..scale.epochs {
        let processes = Processes::start(&outcomes, epoch, programs)?;
        for outcome in &mut outcomes {
            outcome.add_epoch(&processes, epoch, scale)?;
        }
    }
    Ok(outcomes)
}

/// A freshly loaded process for each instance.
struct Processes(Vec<(Instance, Server, Workdir)>);

impl Processes {
    /// Starts the processes. The order rotates with the epoch, as it affects which memory pages a process gets.
    fn start(outcomes: &[Outcome], epoch: usize, programs: &Programs) -> Result<Processes> {
        let mut needed: Vec<Instance> = Vec::new();
        for outcome in outcomes {
            let new = instances(std::slice::from_ref(&outcome.comparison));
            needed.extend(
                new.iter()
                    .filter(|s| !needed.contains(s))
                    .collect::<Vec<_>>(),
            );
        }
        let count = needed.len();
        needed.rotate_left(epoch % count);
        let start = |instance: Instance| {
            let dir = Workdir::new()?;
            let server = instance.data.start(programs, &dir)?;
            Ok((instance, server, dir))
        };
        Ok(Processes(
            needed.into_iter().map(start).collect::<Result<_>>()?,
        ))
    }

    fn server(&self, instance: Instance) -> Result<&Server> {
        let found = self.0.iter().find(|(s, ..)| *s == instance);
        found
            .map(|(_, server, _)| server)
            .ok_or_else(|| "a side has no process".into())
    }
}

impl Outcome {
    fn new(comparison: Comparison, scale: &Scale) -> Outcome {
        let none = || comparison.sides.iter().map(|_| Vec::new()).collect();
        Outcome {
            samples: [none(), none()],
            rounds: scale.rounds,
            comparison,
        }
    }

    fn add_epoch(&mut self, processes: &Processes, epoch: usize, scale: &Scale) -> Result<()> {
        let comparison = &self.comparison;
        for (depth, samples) in DEPTHS.into_iter().zip(&mut self.samples) {
            let connect = |side: &Side| {
                let server = processes.server(side.instance)?;
                Runner::new(
                    server,
                    side,
                    depth,
                    (comparison.ids_of(side), comparison.units),
                )
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

    /// The units per second of a side's samples.
    pub fn throughput(&self, samples: &[Sample]) -> Spread {
        let units = self.comparison.units;
        Spread::of(
            samples
                .iter()
                .map(|s| (s.operations * units) as f64 / s.wall.as_secs_f64()),
        )
    }

    /// The server's nanoseconds per unit in a side's samples.
    pub fn server_cpu(&self, samples: &[Sample]) -> Spread {
        let units = self.comparison.units;
        Spread::of(
            samples
                .iter()
                .map(|s| s.server_ns as f64 / (s.operations * units) as f64),
        )
    }

    /// The title, with the unit unless it is operations.
    pub fn title_with_unit(&self) -> String {
        match self.comparison.unit {
            "operations" => self.comparison.title.clone(),
            unit => format!("{} ({unit}/s)", self.comparison.title),
        }
    }

    /// The throughput of each side at [`MAIN_DEPTH`].
    pub fn main_throughput(&self) -> Vec<Spread> {
        self.samples[0]
            .iter()
            .map(|samples| self.throughput(samples))
            .collect()
    }
}
