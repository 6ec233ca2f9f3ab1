//! Rebuilds the rows of lost tables from the facts of their entities, which `SCAN` finds.

use super::compare::{Comparer, PAGE};
use super::context::Context;
use super::keys::KeySweep;
use crate::domain::error::StoreError;
use crate::domain::event::CheckMode;
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::Partition;
use crate::maintenance::pace::Pace;
use crate::repair::{CheckSettings, CheckedTable, LostTable, forget_lost, lost_tables, settle};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What the audit names as the source of corrections.
const SOURCE: &str = "rebuild";

/// Rebuilds the rows of the lost tables of partitions, if there are any. If it is interrupted, or a table is lost again meanwhile, the next
/// call begins again.
pub(super) async fn rebuild_lost(
    context: &Context,
    partitions: &[Partition],
) -> Result<(), StoreError> {
    let Context { store, catalog } = context;
    let own: BTreeSet<Partition> = partitions.iter().copied().collect();
    let mut lost = lost_tables(store).await?;
    lost.retain(|(table, _)| own.contains(&table.partition));
    if lost.is_empty() {
        return Ok(());
    }
    store
        .refresh_layout()
        .await
        .map_err(|error| StoreError::Unexpected(error.to_string()))?;
    if !settle(store, &catalog.config, Duration::ZERO).await? {
        return Ok(());
    }
    let source =
        Name::new(SOURCE).map_err(|error| StoreError::Unexpected(format!("{SOURCE}: {error}")))?;
    let settings = CheckSettings {
        mode: CheckMode::Exact,
        source,
        round: 0,
        report: None,
    };
    let mut comparer = Comparer::new(context, settings);
    let mut pace = Pace::new(catalog.config.reconcile.entities_per_second);
    let nodes = store.node_map();
    let mut of_nodes: BTreeMap<usize, Vec<(LostTable, String)>> = BTreeMap::new();
    for (table, text) in lost {
        let node = nodes.node_of(table.partition);
        of_nodes.entry(node).or_default().push((table, text));
    }
    for (node, server) in store.servers()?.into_iter().enumerate() {
        let Some(lost) = of_nodes.get(&node) else {
            continue;
        };
        let name_of = |table: &LostTable| (table.etype.clone(), table.partition);
        let tables: BTreeSet<(Name, Partition)> =
            lost.iter().map(|(table, _)| name_of(table)).collect();
        // A table that is created after one of its rows was compared has lost that row again.
        let (mut existing, mut lost_again) = (BTreeSet::new(), BTreeSet::new());
        // The cursor is not saved, so the number does not matter.
        let mut sweep = KeySweep::new(context, server, 0).await?;
        loop {
            let page = sweep.next(PAGE).await?;
            let mut entities = [page.with_object, page.others].concat();
            let table_of = |entity: &Entity| (entity.etype.clone(), store.keys().of_entity(entity));
            entities.retain(|entity| tables.contains(&table_of(entity)));
            for (entity, table) in comparer.check(&entities).await? {
                let of = table_of(&entity);
                if table == CheckedTable::Created && existing.contains(&of) {
                    lost_again.insert(of);
                } else if table != CheckedTable::None {
                    existing.insert(of);
                }
            }
            pace.add(PAGE).await;
            if page.is_last {
                break;
            }
        }
        let is_rebuilt = |(table, _): &&(LostTable, String)| !lost_again.contains(&name_of(table));
        let rebuilt: Vec<(LostTable, String)> = lost.iter().filter(is_rebuilt).cloned().collect();
        forget_lost(store, &rebuilt).await?;
        tracing::info!(tables = rebuilt.len(), "rows of lost tables were rebuilt");
    }
    Ok(())
}
