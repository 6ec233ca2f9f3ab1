//! Scrapes of real processes, from which promtool computes what alerts fire.

use crate::support::Countd;
use countint_tests::env::{self, TempDir};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

/// The minutes for which the first scrape is repeated, with a step of a minute and with shorter ones. Nothing may fire at its end.
const BEFORE: usize = 70;
const BEFORE_SHORT: usize = 15;

/// Scrapes, in the order in which they were made.
#[derive(Default)]
pub struct Recording {
    /// The values of each series. A scrape without the series has none.
    series: BTreeMap<String, Vec<Option<f64>>>,
    /// The series of counters, which go on rising as between the last two scrapes.
    rising: BTreeSet<String>,
    scrapes: usize,
}

impl Recording {
    /// Scrapes processes, each an instance with a name, as Prometheus would.
    pub fn scrape(&mut self, processes: &[(&str, &Countd)]) {
        self.scrapes += 1;
        for (instance, countd) in processes {
            let target = format!("job=\"countd\",instance=\"{instance}\"");
            let scraped = countd.api().try_get("/metrics");
            let text = match scraped {
                Ok((200, text)) => text,
                _ => String::new(),
            };
            self.add(
                &format!("up{{{target}}}"),
                f64::from(u8::from(!text.is_empty())),
            );
            let mut rising = BTreeSet::new();
            for line in text.lines() {
                match line.strip_prefix("# TYPE ") {
                    Some(family) => {
                        let (name, kind) = family.split_once(' ').expect("a name and a type");
                        if matches!(kind, "counter" | "histogram") {
                            rising.insert(name.to_owned());
                        }
                    }
                    None if line.starts_with('#') || line.is_empty() => {}
                    None => self.add_sample(line, &target, &rising),
                }
            }
        }
        for values in self.series.values_mut() {
            values.resize(self.scrapes, None);
        }
    }

    fn add_sample(&mut self, line: &str, target: &str, rising: &BTreeSet<String>) {
        let (series, value) = line.rsplit_once(' ').expect("a series and a value");
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').expect("labels")),
            None => (series, ""),
        };
        let separator = if labels.is_empty() { "" } else { "," };
        let series = format!("{name}{{{target}{separator}{labels}}}");
        let suffixes = ["_bucket", "_sum", "_count"];
        let family = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix));
        if rising.contains(name) || family.is_some_and(|family| rising.contains(family)) {
            self.rising.insert(series.clone());
        }
        self.add(&series, value.parse().expect("a number"));
    }

    fn add(&mut self, series: &str, value: f64) {
        let values = self.series.entry(series.to_owned()).or_default();
        values.resize(self.scrapes - 1, None);
        values.push(Some(value));
    }

    /// Asserts that these alerts do not fire while the first scrape is repeated, and fire when the others follow, one each minute, of which the last
    /// goes on for `minutes`.
    #[track_caller]
    pub fn assert_fires(&self, alerts: &[&str], minutes: usize) {
        self.assert_fires_in_steps(alerts, minutes, 60);
    }

    /// The same with another time between scrapes, in seconds.
    #[track_caller]
    pub fn assert_fires_in_steps(&self, alerts: &[&str], minutes: usize, step: usize) {
        let steps = |minutes: usize| minutes * 60 / step;
        let before = steps(if step < 60 { BEFORE_SHORT } else { BEFORE });
        let end = (before + self.scrapes + steps(minutes)) * step;
        let mut checks = Vec::new();
        for alert in alerts {
            let firing = format!("ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}}");
            let last = format!("max(max_over_time({firing}[{end}s]))");
            checks.push(json!({ "expr": last, "eval_time": format!("{}s", before * step), "exp_samples": [] }));
            let fires = json!([{ "labels": "{}", "value": 1 }]);
            checks.push(
                json!({ "expr": last, "eval_time": format!("{end}s"), "exp_samples": fires }),
            );
        }
        self.check(&checks, before, steps(minutes), step);
    }

    /// Asserts that no alert fires or is about to while the scrapes follow each other, and the last goes on for an hour.
    #[track_caller]
    pub fn assert_silent(&self) {
        let end = format!("{}m", BEFORE + self.scrapes + 60);
        let expr = format!("max by (alertname) (max_over_time(ALERTS[{end}]))");
        let check = json!({ "expr": expr, "eval_time": end, "exp_samples": [] });
        self.check(&[check], BEFORE, 60, 60);
    }

    /// Runs checks of expressions. The first scrape is repeated `before` times, the last one `after` times, each `step` seconds later.
    #[track_caller]
    fn check(&self, checks: &[serde_json::Value], before: usize, after: usize, step: usize) {
        assert!(self.scrapes > 0, "nothing was scraped");
        let rules = env::workspace().join("deploy/prometheus/rules.yml");
        let text = fs::read_to_string(&rules).expect("the rules");
        let is_of_names = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let used: BTreeSet<&str> = text.split(|c| !is_of_names(c)).collect();
        // The other series take most of the time of promtool.
        let series = self.series.iter().filter(|(series, _)| {
            let name = series.split('{').next();
            name.is_some_and(|name| used.contains(name))
        });
        let series = series.map(|(series, values)| {
            let values = self.values(series, values, before, after);
            json!({ "series": series, "values": values })
        });
        let series: Vec<_> = series.collect();
        let interval = format!("{step}s");
        let test = json!({
            "rule_files": [rules],
            "evaluation_interval": interval,
            "tests": [{ "interval": interval, "input_series": series, "promql_expr_test": checks }],
        });
        let dir = TempDir::new();
        let file = dir.path().join("test.yml");
        // YAML contains JSON.
        fs::write(&file, test.to_string()).expect("the test's directory is writable");
        let output = promtool().args(["test", "rules"]).arg(&file).output();
        let output = output.expect("promtool runs: install the package prometheus");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let printed = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{printed}");
    }

    /// The values of a series in the notation of promtool.
    fn values(&self, series: &str, values: &[Option<f64>], before: usize, after: usize) -> String {
        let mut text = Vec::new();
        let (mut last, mut previous) = (None, None);
        for (index, value) in values.iter().enumerate() {
            let repeated = if index == 0 { before } else { 0 };
            match value {
                Some(value) => text.push(format!("{value}+0x{repeated}")),
                // Prometheus marks the end of a series when it is missing in a scrape.
                None if last.is_some() => text.push("stale".to_owned()),
                None => text.push(format!("_x{}", repeated + 1)),
            }
            (previous, last) = (last, *value);
        }
        if let Some(last) = last {
            let is_rising = self.rising.contains(series);
            let rise = previous
                .filter(|_| is_rising)
                .map_or(0.0, |previous| last - previous);
            // A process that was started again counts from 0.
            let rise = rise.max(0.0);
            text.push(format!(
                "{}+{rise}x{}",
                last + rise,
                after.saturating_sub(1)
            ));
        }
        text.join(" ")
    }
}

/// promtool of Prometheus.
pub fn promtool() -> Command {
    Command::new("promtool")
}
