//! Fact stores: all stores give the same replies.

mod cards;
mod changes;
mod compaction;
mod concurrency;
mod ids;
mod setup;

use crate::support::stores::for_each_store;
use cards::{facts_that_cannot_be_counted_are_reported, scripts_count_the_facts_of_every_store};
use changes::{
    all_stores_agree_on_random_changes, change_with_a_key_of_another_type_changes_nothing,
    deleted_counters_start_at_zero,
};
use compaction::facts_stay_unique_when_days_are_compacted;
use concurrency::facts_counts_and_events_agree_after_concurrent_changes;
use ids::{all_users_are_on_a_page, unsupported_ids_are_refused};

for_each_store! {
    [module objects plain cluster]
    all_stores_agree_on_random_changes
    all_users_are_on_a_page
    facts_stay_unique_when_days_are_compacted
    unsupported_ids_are_refused
    facts_counts_and_events_agree_after_concurrent_changes
    scripts_count_the_facts_of_every_store
    facts_that_cannot_be_counted_are_reported
}

/// Tests that use the key names of a single server, which have no hash tags.
mod keys {
    use super::*;

    for_each_store! {
        [module objects plain]
        change_with_a_key_of_another_type_changes_nothing
        deleted_counters_start_at_zero
    }
}
