//! Samples, and their text in the format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    /// Percentiles, with the label `quantile`.
    Summary,
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    pub name: &'static str,
    pub kind: Kind,
    pub help: &'static str,
}

impl Family {
    pub const fn counter(name: &'static str, help: &'static str) -> Family {
        let kind = Kind::Counter;
        Family { name, kind, help }
    }

    pub const fn gauge(name: &'static str, help: &'static str) -> Family {
        let kind = Kind::Gauge;
        Family { name, kind, help }
    }

    pub const fn summary(name: &'static str, help: &'static str) -> Family {
        let kind = Kind::Summary;
        Family { name, kind, help }
    }
}

/// The samples of metrics, by name: the labels and the value of each.
#[derive(Debug, Default, PartialEq)]
pub struct Samples(BTreeMap<&'static str, Vec<(String, f64)>>);

impl Samples {
    /// Adds a sample.
    pub fn add(&mut self, name: &'static str, labels: &[(&str, &str)], value: f64) {
        let mut text = String::new();
        for (label, value) in labels {
            let separator = if text.is_empty() { '{' } else { ',' };
            // Writing to a String cannot fail.
            let _ = write!(text, "{separator}{label}=\"{}\"", escaped(value));
        }
        if !text.is_empty() {
            text.push('}');
        }
        self.0.entry(name).or_default().push((text, value));
    }

    /// Both samples.
    pub fn and(mut self, others: Samples) -> Samples {
        for (name, samples) in others.0 {
            self.0.entry(name).or_default().extend(samples);
        }
        self
    }

    /// The text of the samples of these metrics. Metrics without samples are left out.
    pub fn render(&self, families: impl Iterator<Item = Family>) -> String {
        let mut text = String::new();
        for Family { name, kind, help } in families {
            let Some(samples) = self.0.get(name) else {
                continue;
            };
            let kind = match kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Summary => "summary",
            };
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
            for (labels, value) in samples {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
            text.push('\n');
        }
        text
    }

    #[cfg(test)]
    pub fn names(&self) -> Vec<&'static str> {
        self.0.keys().copied().collect()
    }

    /// The value of a sample. `labels` is the text of the exposition, such as `{node="a"}`.
    #[cfg(test)]
    pub fn value(&self, name: &str, labels: &str) -> Option<f64> {
        let mut samples = self.0.get(name)?.iter();
        samples.find_map(|(found, value)| (found == labels).then_some(*value))
    }
}

/// The value of a label, as the format requires it.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_rendered_by_family() {
        let mut samples = Samples::default();
        samples.add("b_total", &[("node", "a\"\\"), ("of", "x")], 2.0);
        samples.add("a", &[], 0.5);
        let mut more = Samples::default();
        more.add("b_total", &[("node", "c"), ("of", "x")], 3e15);
        let families = [
            Family::gauge("a", "An a"),
            Family::counter("b_total", "The b"),
            Family::gauge("c", "Has no samples"),
        ];
        let text = samples.and(more).render(families.into_iter());
        assert_eq!(
            text,
            "# HELP a An a\n# TYPE a gauge\na 0.5\n\n# HELP b_total The b\n# TYPE b_total counter\n\
             b_total{node=\"a\\\"\\\\\",of=\"x\"} 2\nb_total{node=\"c\",of=\"x\"} 3000000000000000\n\n"
        );
    }
}
