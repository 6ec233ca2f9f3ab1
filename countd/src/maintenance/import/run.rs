//! Runs an import: reads the source, applies its records, records the progress, and verifies the result.

use super::applied::Applied;
use super::authors::AuthorImport;
use super::counts::CountImport;
use super::error::ImportError;
use super::facts::FactImport;
use super::format::Kind;
use super::job::{Fixed, Job, JobState};
use super::options::{Import, Source, Summary, Target};
use super::progress::Reading;
use super::record::Origin;
use super::retry::retry;
use super::source::{Chunk, Position};
use super::verify::Verification;
use crate::domain::config::Config;
use crate::domain::progress::Progress;
use crate::log::inspect::uncounted;
use crate::redis::store::Store;
use crate::storage::catalog::Catalog;
use std::sync::Arc;
use std::time::Duration;

/// The delay before the uncounted events are counted again.
const LAG_DELAY: Duration = Duration::from_millis(500);

/// Runs an import to its end. `difference` gets the first differences that the verification finds.
///
/// # Errors
/// See [`ImportError`]. A later run with the same name continues.
pub async fn run(
    config: Arc<Config>,
    store: Store,
    import: &Import,
    progress: &dyn Progress,
    mut difference: impl FnMut(&str),
) -> Result<Summary, ImportError> {
    let catalog = Catalog::new(config, store.clone());
    let size = import.source.size()?;
    let target = match import.kind {
        Kind::Facts => {
            let facts = FactImport::new(catalog.clone(), store.clone(), &import.name);
            Target::Facts(Box::new(facts))
        }
        Kind::Counts => {
            let how = (import.mode, import.source.tracking());
            let counts = CountImport::new(catalog.clone(), store.clone(), &import.name, how);
            Target::Counts(Box::new(counts))
        }
        Kind::Authors => {
            let authors = AuthorImport::new(catalog.clone(), store.clone());
            Target::Authors(Box::new(authors))
        }
    };
    let job = match import.dry_run {
        true => None,
        false => {
            let fixed = Fixed {
                options: import.options.clone(),
                size,
                scopes: import.source.scopes(import.kind, &catalog),
            };
            Some(Job::start(&store, &import.name, &fixed).await?)
        }
    };
    let state = job
        .as_ref()
        .map_or(JobState::default(), |job| job.state.clone());
    let mut run = Run {
        import,
        store: &store,
        target,
        job,
        progress: Reading {
            progress,
            step: "applying",
            size,
        },
        summary: Summary {
            records: state.records,
            skipped: state.skipped,
            ..Summary::default()
        },
        since_lag_check: 0,
    };
    if state.is_applied {
        run.progress.note("everything was applied before");
    } else {
        run.apply_all(size).await?;
    }
    if let (Some(agreement), Some(job)) = (import.verify, &run.job) {
        let verification = Verification {
            source: &import.source,
            target: &run.target,
            mode: import.mode,
            agreement,
            applied: &job.state,
            progress: Reading {
                progress,
                step: "verifying",
                size,
            },
        };
        let (verified, differences) = verification.run(&mut difference).await?;
        (run.summary.verified, run.summary.differences) = (verified, differences);
    }
    Ok(run.summary)
}

struct Run<'a> {
    import: &'a Import,
    store: &'a Store,
    target: Target,
    /// `None` for a dry run.
    job: Option<Job>,
    progress: Reading<'a>,
    summary: Summary,
    since_lag_check: u64,
}

impl Run<'_> {
    /// Applies the source, again from its start as long as a server was restarted meanwhile.
    async fn apply_all(&mut self, size: Option<u64>) -> Result<(), ImportError> {
        loop {
            self.apply(size).await?;
            let Some(job) = &mut self.job else {
                return Ok(());
            };
            if !job.restart_after_loss().await? {
                let Summary {
                    records, skipped, ..
                } = self.summary;
                return job.finish(records, skipped).await;
            }
            (self.summary.records, self.summary.skipped) = (0, 0);
            self.progress
                .note("a server was restarted and may have lost records: reads the source again");
        }
    }

    async fn apply(&mut self, size: Option<u64>) -> Result<(), ImportError> {
        let state = self.job.as_ref().map(|job| job.state.clone());
        if self.summary.records > 0 {
            let records = self.summary.records;
            let text = format!("continues after {records} records");
            self.progress.note(&text);
        }
        let mut chunks = self.import.source.open(state.as_ref());
        let mut end = 0;
        while let Some(chunk) = chunks.recv().await {
            let chunk = chunk?;
            if let Position::File(part) = &chunk.position {
                end = part.end;
            }
            self.apply_chunk(&chunk).await?;
            let offset = size.map(|_| end);
            self.progress.update(self.summary.records, offset);
        }
        if let (Some(size), Source::File(file)) = (size, &self.import.source)
            && size != end
        {
            return Err(ImportError::Refused(format!(
                "{} has changed while it was read: it had {size} bytes, and {end} were read",
                file.path.display()
            )));
        }
        self.progress
            .update(self.summary.records, size.map(|_| end));
        Ok(())
    }

    async fn apply_chunk(&mut self, chunk: &Chunk) -> Result<(), ImportError> {
        let Summary {
            records, skipped, ..
        } = self.summary;
        let mut number = 0;
        if let Position::File(part) = &chunk.position {
            number = part.number;
            if let Some(job) = &mut self.job {
                job.before(part, records, skipped).await?;
            }
        }
        for (origin, problem) in &chunk.invalid {
            self.skip(origin, problem)?;
        }
        let applied = self.apply_items(chunk, number).await?;
        for (origin, problem) in &applied.invalid {
            self.skip(origin, problem)?;
        }
        self.summary.changed += applied.changed;
        let count = (chunk.items.len() + chunk.invalid.len()) as u64;
        self.summary.records += count;
        if let (Position::Live(Some(cursor)), Some(job)) = (&chunk.position, &mut self.job) {
            let Summary {
                records, skipped, ..
            } = self.summary;
            job.after(cursor.clone(), records, skipped).await?;
        }
        self.since_lag_check += count;
        self.wait_for_consumer().await
    }

    fn skip(&mut self, origin: &Origin, problem: &str) -> Result<(), ImportError> {
        self.summary.skipped += 1;
        if self.summary.skipped > self.import.skip_invalid {
            return Err(ImportError::Invalid {
                origin: origin.clone(),
                problem: problem.to_owned(),
            });
        }
        self.progress.note(&format!("skipped {origin}: {problem}"));
        Ok(())
    }

    /// Applies the records of a chunk.
    async fn apply_items(&self, chunk: &Chunk, number: u64) -> Result<Applied, ImportError> {
        let is_dry_run = self.job.is_none();
        let attempt = async || {
            if !is_dry_run {
                self.store.check_layout()?;
            }
            match &self.target {
                Target::Facts(facts) if is_dry_run => facts.check(&chunk.items).await,
                Target::Facts(facts) => facts.apply(&chunk.items).await,
                Target::Authors(authors) if is_dry_run => Ok(authors.check(&chunk.items)),
                Target::Authors(authors) => authors.apply(&chunk.items).await,
                Target::Counts(counts) if is_dry_run => counts.check(&chunk.items).await,
                Target::Counts(counts) => counts.apply(&chunk.items, number).await,
            }
        };
        retry(|text| self.progress.note(text), attempt).await
    }

    /// Waits while too many events are uncounted. They need memory until they are counted.
    async fn wait_for_consumer(&mut self) -> Result<(), ImportError> {
        let max = self.import.max_lag;
        let can_exceed = self.since_lag_check >= max.div_ceil(4);
        if max == 0 || self.import.kind == Kind::Counts || self.job.is_none() || !can_exceed {
            return Ok(());
        }
        self.since_lag_check = 0;
        let mut is_waiting = false;
        loop {
            let lag = uncounted(self.store).await?;
            if lag <= max {
                return Ok(());
            }
            if !is_waiting {
                self.progress.note(&format!(
                    "waiting for the consumer: {lag} events are not counted yet"
                ));
            }
            is_waiting = true;
            tokio::time::sleep(LAG_DELAY).await;
        }
    }
}
