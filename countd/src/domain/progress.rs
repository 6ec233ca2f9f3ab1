//! The progress of a long operation, as its operator sees it.

/// How much of a step is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update<'a> {
    /// The step, such as `applying`.
    pub step: &'a str,
    /// What is done, in `unit`s; `None` for a step that only waits.
    pub done: Option<u64>,
    /// What will be done at the end of the step, in `unit`s, if it is known.
    pub total: Option<u64>,
    /// What `done` and `total` count, such as `entries`.
    pub unit: &'static str,
    /// More counts by name, such as `("moved", 7)`.
    pub counts: &'a [(&'static str, u64)],
}

impl<'a> Update<'a> {
    /// A step of which this many units are done.
    pub fn new(step: &'a str, done: u64, unit: &'static str) -> Update<'a> {
        Update {
            done: Some(done),
            unit,
            ..Update::waiting(step)
        }
    }

    /// A step that only waits.
    pub fn waiting(step: &'a str) -> Update<'a> {
        Update {
            step,
            done: None,
            total: None,
            unit: "",
            counts: &[],
        }
    }

    /// With the number of units at the end of the step, if it is known.
    pub fn of(self, total: impl Into<Option<u64>>) -> Update<'a> {
        let total = total.into();
        Update { total, ..self }
    }

    /// With more counts.
    pub fn with(self, counts: &'a [(&'static str, u64)]) -> Update<'a> {
        Update { counts, ..self }
    }
}

/// Receives the progress of a long operation.
pub trait Progress: Send + Sync {
    /// Reports how much of a step is done. It is called often: the receiver decides what it shows.
    fn update(&self, update: &Update<'_>);

    /// Reports an event that an operator should know now, such as a skipped record or a retry.
    fn note(&self, text: &str);
}

/// Drops all progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn update(&self, _: &Update<'_>) {}

    fn note(&self, _: &str) {}
}
