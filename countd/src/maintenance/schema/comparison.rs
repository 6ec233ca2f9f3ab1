//! Compares counters with what they count.

use super::error::SchemaMigrationError;
use super::migration::SchemaMigration;
use super::plan;
use crate::domain::event::CheckMode;
use crate::domain::ids::Name;
use crate::maintenance::reconcile::{Context, Scope, reconcile};
use crate::storage::catalog::Catalog;
use std::sync::Arc;

impl SchemaMigration<'_> {
    /// Compares the counters of a sample of the entities with what they count.
    pub(super) async fn compare_sample(
        &mut self,
        columns: &Name,
    ) -> Result<(), SchemaMigrationError> {
        self.step("comparison");
        let types = plan::types_of(&self.context.catalog.config, columns);
        let scope = Scope::Sample(types, self.sample);
        let (compared, unchecked, differing) = self.compare(&scope, CheckMode::Report).await?;
        match (compared, unchecked, differing) {
            (0, 1.., _) => Err(SchemaMigrationError::NotCompared(unchecked)),
            (_, _, 0) => Ok(()),
            _ => Err(SchemaMigrationError::Differences {
                differing,
                compared,
            }),
        }
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
