//! What `/metrics` answers: the metrics of the recorder and of the process, and what the monitor has collected.

use super::exposition;
use crate::monitor::Monitor;
use metrics_exporter_prometheus::{BuildError, PrometheusHandle};
use metrics_process::Collector;

/// The metrics of this process. Cheap to clone.
#[derive(Clone)]
pub struct Scrape {
    recorder: PrometheusHandle,
    process: Collector,
    /// The state of Redis and of the logs.
    pub monitor: Monitor,
}

impl Scrape {
    /// Installs the recorder.
    ///
    /// # Errors
    /// A recorder is installed already.
    pub fn install() -> Result<Scrape, BuildError> {
        let recorder = exposition::install()?;
        let process = Collector::default();
        process.describe();
        Ok(Scrape {
            recorder,
            process,
            monitor: Monitor::default(),
        })
    }

    /// All metrics in the text format of Prometheus. Reads the memory and the open files of the process from `/proc`.
    pub fn render(&self) -> String {
        self.process.collect();
        let mut text = without_nan(&self.recorder.render());
        text.push_str(&self.monitor.text());
        text
    }

    /// The metrics of the recorder alone, in the text format of Prometheus.
    pub fn recorded(&self) -> String {
        self.recorder.render()
    }

    /// Moves samples into histograms. To be called every few seconds, with or without scrapes.
    pub fn run_upkeep(&self) {
        self.recorder.run_upkeep();
    }
}

/// Removes the samples whose value is unknown: a NaN would make every sum over the series NaN.
fn without_nan(text: &str) -> String {
    let lines = text.split_inclusive('\n');
    lines
        .filter(|line| !line.trim_end().ends_with(" NaN"))
        .collect()
}
