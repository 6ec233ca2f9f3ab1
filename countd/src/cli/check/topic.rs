//! Checks the topic, if the log is in Kafka.

use super::report::{Finding, Report};
use crate::cli::error::CommandError;
use countd::domain::config::{Config, LogKind};
use countd::log::kafka::{TopicIdentity, inspect_topic};
use countd::redis::store::Store;
use std::io::Write;

/// Checks the topic of the configuration.
pub(super) async fn check(
    config: &Config,
    store: &Store,
    report: &mut Report<impl Write>,
) -> Result<(), CommandError> {
    if config.log.kind == LogKind::Streams {
        // Its name is enough for the note.
        if let Ok(Some(stored)) = TopicIdentity::stored(store).await {
            report.add(&Finding::note(format!(
                "the log of this data was in the topic {}, whose uncounted records are not counted with log.kind = \"streams\"",
                stored.name
            )))?;
        }
        return Ok(());
    }
    let inspection = match inspect_topic(config, store).await {
        Ok(inspection) => inspection,
        Err(error) => {
            report.add(&Finding::problem(format!("topic: {error}")))?;
            report.fail(format!("topic: {error}"));
            return Ok(());
        }
    };
    for problem in &inspection.problems {
        report.add(&Finding::problem(format!("topic: {problem}")))?;
        report.fail(format!("topic: {problem}"));
    }
    if inspection.problems.is_empty() {
        report.add(&Finding::ok(format!("topic: ok, {}", inspection.summary)))?;
    }
    for note in inspection.notes {
        report.add(&Finding::note(note))?;
    }
    Ok(())
}
