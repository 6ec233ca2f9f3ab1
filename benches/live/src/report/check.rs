//! A measured value and its regression threshold.

/// A value with a regression threshold, or a ratio at which the alternative is better.
pub struct Check {
    /// What was measured.
    pub what: String,
    /// The value.
    pub value: f64,
    /// The regression threshold.
    pub threshold: Threshold,
    /// Its quartiles, if it was measured in rounds.
    pub quartiles: Option<(f64, f64)>,
    /// The same ratio by the server's CPU time, if that was measured.
    pub by_cpu: Option<f64>,
    /// The unit: "x" for ratios.
    pub unit: &'static str,
    /// Whether the alternative is better.
    pub worse: bool,
}

/// A regression threshold.
#[derive(Clone, Copy)]
pub enum Threshold {
    /// No requirement.
    None,
    /// The minimum.
    AtLeast(f64),
    /// The maximum.
    AtMost(f64),
}

impl Check {
    /// A value with a threshold that is not compared with an alternative.
    pub fn absolute(what: String, value: f64, unit: &'static str, threshold: Threshold) -> Check {
        Check {
            what,
            value,
            threshold,
            quartiles: None,
            by_cpu: None,
            unit,
            worse: false,
        }
    }

    /// A ratio of throughputs, CountInt to the alternative, and its minimum.
    pub fn speed(what: String, value: f64, min: Option<f64>) -> Check {
        let threshold = min.map_or(Threshold::None, Threshold::AtLeast);
        Check {
            worse: value < 1.0,
            ..Check::absolute(what, value, "x", threshold)
        }
    }

    /// A ratio of costs (bytes, seconds), CountInt to the alternative, and its maximum.
    pub fn cost(what: String, value: f64, max: Option<f64>) -> Check {
        let threshold = max.map_or(Threshold::None, Threshold::AtMost);
        Check {
            worse: value > 1.0,
            ..Check::absolute(what, value, "x", threshold)
        }
    }

    /// Whether the threshold is met. `None` without a threshold.
    pub fn met(&self) -> Option<bool> {
        match self.threshold {
            Threshold::None => None,
            Threshold::AtLeast(threshold) => Some(self.value >= threshold),
            Threshold::AtMost(threshold) => Some(self.value <= threshold),
        }
    }

    /// The value with its unit.
    pub fn value_cell(&self) -> String {
        format!("{:.3} {}", self.value, self.unit)
    }

    /// The threshold with its unit.
    pub fn threshold_cell(&self) -> String {
        match self.threshold {
            Threshold::None => String::new(),
            Threshold::AtLeast(threshold) => format!("at least {threshold} {}", self.unit),
            Threshold::AtMost(threshold) => format!("at most {threshold} {}", self.unit),
        }
    }

    /// The row in the table of thresholds.
    pub fn cells(&self) -> [String; 6] {
        let met = match self.met() {
            None => "",
            Some(true) => "met",
            Some(false) => "**not met**",
        };
        [
            self.what.clone(),
            self.value_cell(),
            quartiles(self.quartiles),
            self.by_cpu
                .map_or(String::new(), |ratio| format!("{ratio:.3} x")),
            self.threshold_cell(),
            met.into(),
        ]
    }

    /// The line in the list of alternatives that are better.
    pub fn remark(&self) -> String {
        let by_cpu = self.by_cpu.map_or(String::new(), |ratio| {
            format!(" ({ratio:.3} x by server CPU)")
        });
        format!("{}: {}{by_cpu}", self.what, self.value_cell())
    }
}

fn quartiles(range: Option<(f64, f64)>) -> String {
    range.map_or(String::new(), |(low, high)| {
        format!("{low:.2} .. {high:.2}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_met_or_not() {
        let speed = |value| Check::speed("x".into(), value, Some(1.1));
        assert_eq!((speed(1.1).met(), speed(1.1).worse), (Some(true), false));
        assert_eq!((speed(1.05).met(), speed(1.05).worse), (Some(false), false));
        assert!(speed(0.99).worse);
        let cost = |value| Check::cost("x".into(), value, Some(1.25));
        assert_eq!((cost(1.2).met(), cost(1.2).worse), (Some(true), true));
        assert_eq!(cost(1.3).cells()[5], "**not met**");
        assert_eq!(Check::cost("x".into(), 9.0, None).met(), None);
    }
}
