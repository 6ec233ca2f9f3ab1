//! The progress of reconciliation and of migrations.

use super::error::ConsoleError;
use super::layout::{Column, Section, entity_link, number, optional_time, page, table, time};
use crate::http::app::App;
use crate::http::pages::Page;
use crate::http::sessions::Session;
use crate::maintenance::progress::{SweepProgress, sweep_progress};
use crate::maintenance::storage::{RecordedRun, RunState, recorded_runs};
use crate::redis::layout::StoredLayout;
use axum::extract::State;
use maud::{Markup, html};

/// The number of counters that are listed.
const DRIFTING: usize = 100;

/// The page.
///
/// # Errors
/// Redis failed.
pub async fn reconciliation(
    State(app): State<App>,
    session: Session,
) -> Result<Page, ConsoleError> {
    let progress = sweep_progress(&app.store).await?;
    let runs = recorded_runs(&app.store).await?;
    let settings = &app.config.reconcile;
    let content = html! {
        @if !settings.enabled {
            p .notice .problem { "Reconciliation is off in the configuration of this process: reconcile.enabled." }
        }
        p {
            "Round " (number(progress.round)) ". A round begins every " (settings.interval_seconds) " seconds, and each entity is compared in "
            (settings.sample) " rounds."
        }
        @if progress.lost_tables > 0 {
            p .notice .problem { (progress.lost_tables) " tables lost rows, which are being rebuilt." }
        }
        h2 { "Sweeps" }
        (sweeps(&progress))
        h2 { "Counters that differed in the last rounds" }
        (drifting(&progress))
        h2 { "Migrations" }
        (migrations(&app.store.layout()))
        (runs_of_migrations(&runs))
    };
    Ok(page(Section::Reconciliation, &session, &content))
}

fn sweeps(progress: &SweepProgress) -> Markup {
    let row = |what: String, ended: u64, state: Markup| {
        html! { tr { th scope="row" { (what) } td .right { (number(ended)) } td { (state) } } }
    };
    let SweepProgress {
        sums,
        transposition,
        ..
    } = progress;
    let rows = html! {
        @for of in &progress.rows {
            (row(format!("Rows of {}: {} in {} tables", of.etype, number(of.rows), of.tables), of.ended, html! { "oldest one since " (time(of.since)) }))
        }
        @for of in &progress.keys {
            (row(format!("Keys of the node with partition {}", of.lowest), of.ended, html! { "since " (time(of.since)) }))
        }
        (row("Received counters of users".to_owned(), sums.sweep.saturating_sub(u64::from(sums.is_running)), html! {
            @if sums.is_running { "running; " }
            "ended " (optional_time(sums.ended))
        }))
        (row("Facts of users".to_owned(), transposition.ended, html! {
            @if transposition.begun > transposition.ended { "running; " }
            "ended " (optional_time(transposition.ended_at)) "; counters of users compared " (optional_time(transposition.passed_at))
        }))
        tr {
            th scope="row" { "Followers" }
            td .right {}
            td { "ended " (optional_time(sums.followers_ended)) }
        }
    };
    table(
        "Sweeps",
        &[
            Column::Text("Sweep"),
            Column::Number("Ended"),
            Column::Text("State (times in UTC)"),
        ],
        &rows,
    )
}

fn drifting(progress: &SweepProgress) -> Markup {
    if progress.drifting.is_empty() {
        return html! { p .muted { "None." } };
    }
    let rows = html! {
        @for counter in progress.drifting.iter().take(DRIFTING) {
            @let (etype, eid) = (counter.entity.etype.as_str(), counter.entity.eid.as_str());
            tr {
                th scope="row" { a href=(entity_link(etype, eid)) { (etype) " " (eid) } }
                td { (counter.counter) }
                td .right { (counter.rounds) }
            }
        }
    };
    html! {
        p .muted { (progress.drifting.len()) " counters were above the thresholds. From three rounds on a counter has not converged." }
        (table("Counters that differed", &[Column::Text("Entity or user"), Column::Text("Counter"), Column::Number("Rounds in a row")], &rows))
    }
}

/// The migrations that are under way, and what takes each to its next stage.
fn migrations(layout: &StoredLayout) -> Markup {
    let row = |what: &str, state: &str, command: &str| {
        html! { tr { th scope="row" { (what) } td { (state) } td { code { (command) } } } }
    };
    let states = layout.all_schema_views().values().map(|views| &views.state);
    let schemas: Vec<Markup> = states
        .filter_map(|state| {
            let what = format!("Schema {} to {}", state.from, state.to);
            let percent = state.percent_of_reads();
            let stage = format!(
                "{}, reads of {percent} % of the entities return the new schema",
                state.stage.name()
            );
            Some(row(&what, &stage, &state.next_command()?))
        })
        .collect();
    let moving = layout.moving_types().into_iter();
    let storages: Vec<Markup> = moving
        .map(|etype| {
            let command = format!("countd storage migrate {etype}");
            row(
                &format!("Storage of {etype}"),
                "counters are moved",
                &command,
            )
        })
        .collect();
    let adoption = layout.backend.is_mixed().then(|| {
        let state = "data that was created without the module is converted";
        row("Module", state, "countd storage adopt")
    });
    if schemas.is_empty() && storages.is_empty() && adoption.is_none() {
        return html! { p .muted { "None is under way." } };
    }
    let rows = html! { @for row in schemas.iter().chain(&storages).chain(&adoption) { (row) } };
    table(
        "Migrations",
        &[
            Column::Text("Migration"),
            Column::Text("Stage"),
            Column::Text("Next command"),
        ],
        &rows,
    )
}

/// What the last run of each migration of storage has done, or does.
fn runs_of_migrations(runs: &[RecordedRun]) -> Markup {
    if runs.is_empty() {
        return html! {};
    }
    let rows = html! {
        @for run in runs {
            tr {
                th scope="row" {
                    @match &run.target {
                        Some(target) => { "Storage of " (target) }
                        None => { "Module" }
                    }
                }
                td { (state(run)) }
                td .right { (number(run.keys.0)) " of " (number(run.keys.1)) }
                td { (counts(run)) }
                td { (time(run.started)) }
                td { (time(run.updated)) }
            }
        }
    };
    html! {
        p .muted { "The last run of each migration of the storage. Requests and consumers move and convert some values, too. What is left is damaged." }
        (table(
            "Runs of migrations",
            &[
                Column::Text("Migration"),
                Column::Text("State"),
                Column::Number("Keys scanned by the last pass"),
                Column::Text("Counts"),
                Column::Text("Began (UTC)"),
                Column::Text("Last sign of life"),
            ],
            &rows,
        ))
    }
}

/// How a run stands.
fn state(run: &RecordedRun) -> Markup {
    match &run.state {
        RunState::Running(step) => html! { "runs: " (step) },
        RunState::Silent(step) => {
            html! { strong { "stopped while: " (step) "; run the command again" } }
        }
        RunState::Ended(at) => html! { "ended " (time(*at)) },
        RunState::Failed(at, error) => {
            html! { strong { "failed " (time(*at)) ": " (error) } }
        }
    }
}

/// The counts of a run, such as `found 12, moved 10`.
fn counts(run: &RecordedRun) -> String {
    let counts = run.counts.iter();
    let counts = counts.map(|(name, count)| format!("{name} {}", number(*count)));
    counts.collect::<Vec<_>>().join(", ")
}
