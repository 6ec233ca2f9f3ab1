//! Rebuilds the counters of facts on a user, which are in the slots of other users: by a check in the log.

use super::append::{CheckRequest, append_checks};
use super::rebuild::Shared;
use super::rebuild_call::check_of;
use super::source::{Sources, UserSource};
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::{Entity, Name};
use crate::facts::{Card, CardSource, cards, decode_cards};

impl Shared {
    /// Counts the facts on a user, puts the numbers into values of 0, and appends a check that corrects the counters. Returns whether facts
    /// need a recount: their counters are left alone.
    pub(super) async fn check_followers(
        &self,
        user: &Entity,
        values: &mut [u64],
        trace_id: &str,
    ) -> Result<bool, Problem> {
        let (config, layout) = (&self.catalog.config, self.store.layout());
        let sources = Sources::new(config, &layout);
        let (mut metrics, mut is_large) = (Vec::new(), false);
        for name in config.users.names() {
            let Some(counter) = config.users.counter(&name) else {
                continue;
            };
            let UserSource::Target(names) = sources.of_user(&counter) else {
                continue;
            };
            let index = usize::from(counter.index());
            let Some(value) = values.get_mut(index).filter(|value| **value == 0) else {
                continue;
            };
            let of_counter = names.into_iter().filter_map(|name| {
                let kind = config.metrics.get(name.as_str())?.1.fact_kind()?;
                let source = self.facts.get(kind).card_source(&name, user);
                Some((name, source))
            });
            let of_counter: Vec<(Name, CardSource)> = of_counter.collect();
            let facts: Vec<CardSource> = of_counter.iter().map(|(_, of)| of.clone()).collect();
            let reply = cards(self.store.backend(), &facts)
                .send_read(&self.store)
                .await?;
            let found = decode_cards(reply)?;
            if found.contains(&Card::Large) {
                is_large = true;
                continue;
            }
            for card in found {
                if let Card::Known(count) = card {
                    *value += count;
                }
            }
            if *value > 0 {
                metrics.extend(of_counter);
            }
        }
        // Otherwise processes may change counters of facts in different steps.
        if metrics.is_empty() || layout.counting != config.counting() {
            return Ok(is_large);
        }
        let check =
            check_of(user, trace_id).map_err(|error| StoreError::Unexpected(error.to_string()))?;
        append_checks(&self.store, &[CheckRequest { check, metrics }]).await?;
        Ok(is_large)
    }
}
