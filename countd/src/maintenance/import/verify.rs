//! Compares the source with countd.

use super::counts::{Agreement, Mode};
use super::error::ImportError;
use super::job::JobState;
use super::options::{Source, Target};
use super::progress::Reading;
use super::retry::retry;
use super::source::{Chunk, Position};
use super::totals::Totals;

/// The number of differences that are printed.
const MAX_PRINTED: u64 = 1_000;

/// Compares the source with countd.
pub struct Verification<'a> {
    /// The source.
    pub source: &'a Source,
    /// The facts, counts or authors.
    pub target: &'a Target,
    /// What happened to existing values of counters.
    pub mode: Mode,
    /// Which values of counters agree.
    pub agreement: Agreement,
    /// The state of the import, which is applied.
    pub applied: &'a JobState,
    /// The progress.
    pub progress: Reading<'a>,
}

/// Prints differences and counts them.
struct Differences<'a> {
    print: &'a mut dyn FnMut(&str),
    count: u64,
}

impl Differences<'_> {
    fn add(&mut self, differences: &[String]) {
        for difference in differences {
            self.count += 1;
            if self.count <= MAX_PRINTED {
                (self.print)(difference);
            }
        }
    }
}

impl Verification<'_> {
    /// Compares all records. Returns their number, and that of differences.
    ///
    /// # Errors
    /// The file has changed since it was applied, or reading failed.
    pub async fn run(mut self, print: &mut dyn FnMut(&str)) -> Result<(u64, u64), ImportError> {
        let mut differences = Differences { print, count: 0 };
        let parts = match (self.target, self.source) {
            (Target::Counts(_) | Target::Authors(_), Source::File(_)) => {
                Totals::parts(self.applied.records)
            }
            _ => 1,
        };
        let mut verified = 0;
        for part in 0..parts {
            verified = self.read(part, parts, &mut differences).await?;
        }
        Ok((verified, differences.count))
    }

    /// Reads the source once.
    async fn read(
        &mut self,
        part: u64,
        parts: u64,
        differences: &mut Differences<'_>,
    ) -> Result<u64, ImportError> {
        let mut totals = Totals::new(part, parts, self.mode);
        let mut chunks = self.source.open(None);
        let (mut records, mut offset) = (0, None);
        while let Some(chunk) = chunks.recv().await {
            let chunk = chunk?;
            self.check_file(&chunk)?;
            if let Position::File(position) = &chunk.position {
                offset = Some(position.end);
            }
            records += chunk.items.len() as u64;
            let found = match (self.target, self.source) {
                (Target::Facts(facts), _) => {
                    let note = |text: &str| self.progress.note(text);
                    retry(note, || facts.missing(&chunk.items)).await?
                }
                (Target::Counts(counts), Source::File(_)) => {
                    totals.add(counts.valid(&chunk.items).await?);
                    Vec::new()
                }
                (Target::Authors(authors), _) => {
                    totals.add(authors.valid(&chunk.items));
                    Vec::new()
                }
                (Target::Counts(counts), Source::Live(_)) => {
                    counts.differences(&chunk.items, self.agreement).await?
                }
            };
            differences.add(&found);
            self.progress.update(records, offset);
        }
        let items = totals.into_items();
        let found = match self.target {
            Target::Counts(counts) => counts.differences(&items, self.agreement).await?,
            Target::Authors(authors) => authors.differences(&items).await?,
            Target::Facts(_) => Vec::new(),
        };
        differences.add(&found);
        self.progress.update(records, offset);
        Ok(records)
    }

    /// Checks at the end of a file that it is the file that was applied.
    fn check_file(&self, chunk: &Chunk) -> Result<(), ImportError> {
        match &chunk.position {
            Position::File(part)
                if part.start == part.end
                    && (part.end, &part.hash)
                        != (self.applied.file.sent, &self.applied.file.hash) =>
            {
                let problem = "the file has changed since it was applied";
                Err(ImportError::Refused(problem.to_owned()))
            }
            _ => Ok(()),
        }
    }
}
