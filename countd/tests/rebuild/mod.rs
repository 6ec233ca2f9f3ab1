//! Lost counters are rebuilt from the facts that they count.

mod pages;
mod reads;
mod setup;
mod short;
mod stampede;
mod writes;

use crate::support::stores::for_each_store;
use pages::*;
use reads::*;
use short::*;
use stampede::*;
use writes::*;

for_each_store!([module objects plain cluster cluster_objects]
    deleted_counters_are_rebuilt_on_read
    deleted_counters_of_a_page_are_rebuilt
    a_key_of_another_type_is_rebuilt_alone_in_a_page
    a_batched_counter_is_rebuilt_when_the_log_is_drained
    the_loser_answers_from_the_facts
    verified_zeros_cost_no_further_command
    the_author_is_credited_after_a_rebuild
    a_field_without_source_is_unrecoverable_and_audited
    deleted_fields_without_source_are_audited
    a_like_on_a_lost_counter_does_not_make_it_one
    a_pipeline_on_lost_counters_rebuilds_them
    a_thousand_readers_cause_one_rebuild
    a_thousand_requests_at_once_cause_one_rebuild
    a_commit_on_a_damaged_key_rebuilds_it
);

/// Tests of counters that are objects.
mod of_objects {
    use super::*;

    for_each_store!([objects plain cluster_objects]
        a_truncated_counter_keeps_its_other_fields
        a_short_object_is_rebuilt_on_reads
        lengths_cost_right_objects_nothing
    );
}
