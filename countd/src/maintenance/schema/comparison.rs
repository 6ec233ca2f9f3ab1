//! Compares counters with what they count.

use super::error::SchemaMigrationError;
use super::migration::SchemaMigration;
use super::plan;
use crate::domain::event::CheckMode;
use crate::domain::ids::Name;
use crate::maintenance::reconcile::{Context, Scope, reconcile};
use crate::redis::day_states::complete_days;
use crate::storage::catalog::Catalog;
use std::sync::Arc;
use std::time::Duration;

/// How often a sample is compared, and the time between, as long as some of its counters cannot be compared: consumers compare nothing while
/// a process with other settings runs, such as one that is about to end.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_secs(2);
/// How often it is checked whether counts by day are complete, and the time between.
const DAYS_ATTEMPTS: u32 = 40;
const DAYS_PAUSE: Duration = Duration::from_millis(250);

impl SchemaMigration<'_> {
    /// Compares the counters of a sample of the entities with what they count.
    pub(super) async fn compare_sample(
        &mut self,
        columns: &Name,
    ) -> Result<(), SchemaMigrationError> {
        self.step("comparison");
        let types = plan::types_of(&self.context.catalog.config, columns);
        let daily = self.context.catalog.config.metrics.daily();
        let daily = daily.filter(|(_, metric)| types.iter().any(|etype| metric.applies_to(etype)));
        let daily: Vec<Name> = daily.map(|(name, _)| name.clone()).collect();
        self.wait_for_days(&daily).await?;
        let scope = Scope::Sample(types, self.sample);
        for attempt in 1.. {
            let (compared, unchecked, differing) = self.compare(&scope, CheckMode::Report).await?;
            match (unchecked, differing) {
                (0, 0) => break,
                (_, 1..) => {
                    return Err(SchemaMigrationError::Differences {
                        differing,
                        compared,
                    });
                }
                // Those that plain reads found to differ are among them.
                (_, 0) if attempt == ATTEMPTS => {
                    return Err(SchemaMigrationError::NotCompared(unchecked));
                }
                (_, 0) => tokio::time::sleep(PAUSE).await,
            }
        }
        Ok(())
    }

    /// Waits until everything that these metrics have counted is known by day, for some seconds: comparisons leave out their counters until
    /// then.
    pub(super) async fn wait_for_days(&self, metrics: &[Name]) -> Result<(), SchemaMigrationError> {
        for attempt in 1.. {
            let complete = complete_days(&self.context.store).await?;
            let incomplete = metrics.iter().find(|metric| !complete.contains(*metric));
            match incomplete {
                None => break,
                Some(metric) if attempt == DAYS_ATTEMPTS => {
                    return Err(SchemaMigrationError::DaysIncomplete(metric.clone()));
                }
                Some(_) => tokio::time::sleep(DAYS_PAUSE).await,
            }
        }
        Ok(())
    }

    /// Compares counters with their facts. Returns how many were compared, how many could not be, and how many differ still.
    pub(super) async fn compare(
        &mut self,
        scope: &Scope,
        mode: CheckMode,
    ) -> Result<(u64, u64, u64), SchemaMigrationError> {
        // The schemas of this process may be older than the stage.
        let config = Arc::clone(&self.context.catalog.config);
        let store = self.context.store.clone();
        let context = Context {
            catalog: Catalog::new(config, store.clone()),
            store,
        };
        let report = reconcile(&context, scope, mode, self.progress).await?;
        let metrics = || report.metrics.values();
        Ok((
            metrics().map(|of| of.checked).sum(),
            metrics().map(|of| of.unchecked).sum(),
            report.left(),
        ))
    }
}
