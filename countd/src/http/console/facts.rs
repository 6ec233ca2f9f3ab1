//! The facts of an entity or on a user.

use super::layout::{Column, entity_link, number, table};
use crate::domain::config::USER;
use crate::domain::error::{Problem, StoreError};
use crate::domain::ids::Entity;
use crate::domain::split::SplitPhase;
use crate::facts::{Card, FactStores, SplitFacts, cards, decode_cards};
use crate::http::app::App;
use crate::redis::call::send_reads;
use maud::{Markup, html};

/// The number of users that are listed.
const USERS: usize = 10;

/// The number of facts of a metric, and some of the users.
pub struct MetricFacts {
    metric: String,
    card: Card,
    /// Whether the facts are being split or merged.
    is_moving: bool,
    users: Vec<String>,
}

/// Reads the facts of each *once* metric on an entity.
///
/// # Errors
/// Redis failed.
pub async fn facts_of(app: &App, entity: &Entity) -> Result<Vec<MetricFacts>, Problem> {
    let stores = FactStores::new(
        app.store.keys(),
        app.store.current_backend(),
        app.config.facts.shards,
    );
    let metrics = app.config.metrics.iter();
    let metrics: Vec<_> = metrics
        .filter(|(_, metric)| metric.applies_to(&entity.etype))
        .filter_map(|(name, metric)| Some((name, stores.of(metric)?)))
        .collect();
    if metrics.is_empty() {
        return Ok(Vec::new());
    }
    let layout = app.store.layout();
    let state = layout.split_of(entity);
    let splits = SplitFacts::new(app.store.keys(), stores.clone());
    let mut calls = Vec::new();
    let places: Vec<usize> = metrics
        .iter()
        .map(|(name, store)| {
            let sources = match state.filter(|state| state.has(name)) {
                Some(state) => splits.all_sources(name, entity, state).collect(),
                None => vec![store.card_source(name, entity)],
            };
            let backend = app.store.backend();
            calls.extend(
                sources
                    .iter()
                    .map(|of| cards(backend, std::slice::from_ref(of))),
            );
            sources.len()
        })
        .collect();
    let mut replies = send_reads(&app.store, &calls).await?.into_iter();
    let mut counted = Vec::with_capacity(metrics.len());
    for places in places {
        let mut of_places = Vec::with_capacity(places);
        for reply in replies.by_ref().take(places) {
            of_places.extend(decode_cards(reply.map_err(StoreError::from)?)?);
        }
        counted.push(of_places.into_iter().sum());
    }
    let moving = state.filter(|state| state.phase != SplitPhase::Split);
    let mut facts = Vec::with_capacity(metrics.len());
    let limit = USERS.min(app.config.http.max_batch);
    for ((name, _), card) in metrics.iter().zip(counted) {
        let users = match card {
            // A key of another type cannot be listed.
            Card::WrongType => Vec::new(),
            _ => {
                let page = app.queries.who(name.as_str(), entity, None, limit).await?;
                page.users
            }
        };
        facts.push(MetricFacts {
            metric: name.to_string(),
            card,
            is_moving: moving.is_some_and(|state| state.has(name)),
            users,
        });
    }
    Ok(facts)
}

/// The facts as a table.
pub fn fact_table(facts: &[MetricFacts]) -> Markup {
    if facts.is_empty() {
        return html! { p .muted { "No metric of this type has facts." } };
    }
    let rows = html! {
        @for of in facts {
            tr {
                th scope="row" { (of.metric) }
                td .right {
                    @match of.card {
                        Card::Known(count) => { (number(count)) },
                        Card::WrongType if of.is_moving => { "moving" },
                        Card::WrongType => { "damaged" },
                        Card::Large => { "too many to count in one step" },
                    }
                }
                td { @for uid in &of.users { a href=(entity_link(USER, uid)) { (uid) } " " } }
            }
        }
    };
    table(
        "Facts",
        &[
            Column::Text("Metric"),
            Column::Number("Users"),
            Column::Text("Some of them"),
        ],
        &rows,
    )
}
