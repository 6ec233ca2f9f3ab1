//! CPU time at each part.

/// CPU seconds at each part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Of the client that sends the requests.
    pub client: f64,
    /// Of countd.
    pub countd: f64,
    /// Of Redis.
    pub redis: f64,
}

impl Cost {
    /// Combines each part with that of another cost.
    pub fn map(self, other: Cost, apply: impl Fn(f64, f64) -> f64) -> Cost {
        Cost {
            client: apply(self.client, other.client),
            countd: apply(self.countd, other.countd),
            redis: apply(self.redis, other.redis),
        }
    }

    /// The sum.
    pub fn plus(self, other: Cost) -> Cost {
        self.map(other, |one, two| one + two)
    }

    /// This cost without another one, which may be measured as larger; at least 0.
    pub fn without(self, other: Cost) -> Cost {
        self.map(other, |one, two| (one - two).max(0.0))
    }

    /// This many times the cost.
    pub fn times(self, factor: f64) -> Cost {
        self.map(self, |one, _| one * factor)
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::Cost;

    /// Fails unless the parts of a cost are these, within a nanosecond.
    pub fn assert_cost(cost: Cost, nanoseconds: [f64; 3]) {
        let found = [cost.client, cost.countd, cost.redis].map(|seconds| seconds * 1e9);
        for (found, expected) in found.iter().zip(nanoseconds) {
            assert!(
                (found - expected).abs() < 1.0,
                "{cost:?} instead of {nanoseconds:?}"
            );
        }
    }
}
