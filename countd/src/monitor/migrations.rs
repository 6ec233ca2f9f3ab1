//! The migrations that are under way, as the layout of the process has them.

use super::samples::{Family, Samples};
use crate::domain::split::SplitPhase;
use crate::redis::store::Store;

const SCHEMAS: &str = "countd_schema_migration_reads_ratio";
const EPOCH: &str = "countd_layout_epoch";
const STORAGE: &str = "countd_storage_migration";
const UNFINISHED: &str = "countd_storage_unfinished";
const SPLITS: &str = "countd_split_entities";

#[rustfmt::skip]
pub const FAMILIES: [Family; 5] = [
    Family::gauge(EPOCH, "Epoch of the layout of the data that this process follows, in milliseconds since 1970. A process with a lower one than others does not follow a migration"),
    Family::gauge(SCHEMAS, "Share of the entities whose reads return the new schema, of each migration of a schema that is under way, by its stage"),
    Family::gauge(SPLITS, "Entities that are split, or are being split or merged, by their phase"),
    Family::gauge(STORAGE, "Always 1; the entity types whose counters a migration of the storage moves, and `user` for those of users"),
    Family::gauge(UNFINISHED, "Entity types whose counters a migration of the storage moves, plus 1 while an adoption converts data that was created without the module"),
];

/// The migrations that are under way. Reads nothing from Redis: processes follow the layout.
pub fn collect(store: &Store) -> Samples {
    let mut samples = Samples::default();
    let layout = store.layout();
    samples.add(EPOCH, &[], layout.epoch as f64);
    let states = layout.all_schema_views().values().map(|views| &views.state);
    for state in states.filter(|state| state.stage.has_both()) {
        let labels = [
            ("from", state.from.as_str()),
            ("to", state.to.as_str()),
            ("stage", state.stage.name()),
        ];
        samples.add(
            SCHEMAS,
            &labels,
            f64::from(state.percent_of_reads()) / 100.0,
        );
    }
    for etype in layout.moving_types() {
        samples.add(STORAGE, &[("etype", etype)], 1.0);
    }
    let unfinished = layout.moving_types().len() + usize::from(layout.backend.is_mixed());
    samples.add(UNFINISHED, &[], unfinished as f64);
    for phase in SplitPhase::ALL {
        let states = layout.splits().values();
        let count = states.filter(|state| state.phase == phase).count();
        samples.add(SPLITS, &[("phase", phase.name())], count as f64);
    }
    samples
}
