//! The progress of a step that reads the source.

use crate::domain::progress::{Progress, Update};

/// Shows how much of the source a step has read.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// Where it is shown.
    pub progress: &'a dyn Progress,
    /// The step.
    pub step: &'static str,
    /// The size of a file in bytes.
    pub size: Option<u64>,
}

impl Reading<'_> {
    /// Shows the number of records, and of bytes of a file, that were read.
    pub fn update(&self, records: u64, offset: Option<u64>) {
        match (offset, self.size) {
            (Some(offset), Some(size)) => {
                let counts = [("records", records)];
                let update = Update::new(self.step, offset, "bytes").of(size);
                self.progress.update(&update.with(&counts));
            }
            _ => {
                let update = Update::new(self.step, records, "records");
                self.progress.update(&update);
            }
        }
    }

    /// Reports an event.
    pub fn note(&self, text: &str) {
        self.progress.note(text);
    }
}
