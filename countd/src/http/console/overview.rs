//! The overview: figures of the logs, problems, differences of counters, hot entities, and split entities.

use super::error::ConsoleError;
use super::layout::{Column, Section, entity_link, number, page, table, time};
use crate::domain::error::{Problem, StoreError, join_names};
use crate::http::app::App;
use crate::http::json::Json;
use crate::http::pages::Page;
use crate::http::sessions::Session;
use crate::log::{dead_letters, inspect};
use crate::monitor::differences::{Differences, HOURS, differences};
use crate::monitor::exposition;
use crate::redis::layout::StoredLayout;
use crate::redis::processes::live_consumers;
use crate::storage::hot::HotEntity;
use axum::extract::State;
use maud::{Markup, html};
use serde::Serialize;

/// The number of hot entities that are listed.
const HOT: usize = 20;
/// The number of problems that are listed.
const PROBLEMS: usize = 50;

/// The figures that the page reads again and again.
#[derive(Serialize)]
pub struct Figures {
    /// The number of events in the logs, the counted ones included.
    appended: u64,
    /// The number of events that were counted.
    counted: u64,
    /// The number of events that were not.
    lag: u64,
    /// The number of dead letters; null if their stream is damaged.
    dead: Option<u64>,
    /// The number of live consumers.
    consumers: u64,
    /// The number of requests that this process has answered.
    requests: u64,
}

async fn read(app: &App) -> Result<(Figures, Vec<String>), StoreError> {
    let totals = inspect::totals(&app.store).await?;
    let consumers = live_consumers(&app.store).await?;
    let requests = exposition::sum(&app.metrics.render(), "countd_http_requests_total");
    let (dead, damaged) = match dead_letters::count(&app.store).await {
        Ok(count) => (Some(count), None),
        Err(error @ StoreError::Unavailable(_)) => return Err(error),
        Err(error) => (None, Some(format!("dead letters: {error}"))),
    };
    let problems = totals.problems.into_iter();
    let problems = problems.map(|(partition, problem)| format!("partition {partition}: {problem}"));
    let figures = Figures {
        appended: totals.counted + totals.uncounted,
        counted: totals.counted,
        lag: totals.uncounted,
        dead,
        consumers: consumers.len() as u64,
        requests: requests as u64,
    };
    Ok((figures, problems.chain(damaged).collect()))
}

/// The figures, for the script of the page.
///
/// # Errors
/// Redis failed.
pub async fn figures(State(app): State<App>) -> Result<Json<Figures>, Problem> {
    Ok(Json(read(&app).await?.0))
}

/// The page.
///
/// # Errors
/// Redis failed.
pub async fn overview(State(app): State<App>, session: Session) -> Result<Page, ConsoleError> {
    let (figures, problems) = read(&app).await?;
    let hottest = app.hot.hottest(&app.store).await;
    let hottest = hottest.map_err(StoreError::from)?;
    let found = differences(&app.store).await?;
    let content = html! {
        @if figures.consumers == 0 {
            p .notice .problem { "No consumer runs: events are not counted." }
        }
        @if !problems.is_empty() {
            div .notice .problem {
                h2 { "Problems" }
                ul { @for problem in problems.iter().take(PROBLEMS) { li { (problem) } } }
                @if problems.len() > PROBLEMS { p { "and " (problems.len() - PROBLEMS) " more: countd log list" } }
            }
        }
        (figure_list(&figures))
        h2 { "Differences between counters and facts" }
        (histogram(&found))
        h2 { "Hot entities" }
        (hot(&hottest, app.config.hot.min_rate))
        (splits(&app.store.layout()))
    };
    Ok(page(Section::Overview, &session, &content))
}

fn figure_list(figures: &Figures) -> Markup {
    let figure = |id: &str, label: &str, value: Option<u64>, has_rate: bool| {
        html! {
            div {
                dt { (label) }
                dd {
                    span .number data-figure=(id) { (value.map_or("unknown".to_owned(), number)) }
                    @if has_rate { span .muted data-rate=(id) {} }
                }
            }
        }
    };
    html! {
        dl .figures data-figures="/admin/figures" {
            (figure("appended", "Events in the log", Some(figures.appended), true))
            (figure("counted", "Events counted", Some(figures.counted), true))
            (figure("lag", "Lag: events not counted yet", Some(figures.lag), false))
            (figure("dead", "Dead letters", figures.dead, false))
            (figure("consumers", "Live consumers", Some(figures.consumers), false))
            (figure("requests", "HTTP requests of this process", Some(figures.requests), true))
        }
    }
}

/// The histogram of differences.
fn histogram(found: &Differences) -> Markup {
    let most = found.buckets.iter().map(|(_, count)| *count).max();
    let Some(most) = most.filter(|most| *most > 0) else {
        return html! { p .muted { "No process has compared a counter in the last " (HOURS) " hours." } };
    };
    let rows = html! {
        @for (bound, count) in &found.buckets {
            @let label = label(*bound);
            tr {
                th scope="row" { (label) }
                td .right { (number(*count)) }
                td { meter min="0" max=(most) value=(count) aria-label={ "Counters with a difference: " (label) } {} }
            }
        }
    };
    html! {
        p .muted { "Comparisons by all processes since " (time(found.since)) " (UTC; the last " (HOURS) " hours), by the absolute difference." }
        (table("Differences", &[Column::Text("Difference"), Column::Number("Comparisons"), Column::Text("Share")], &rows))
    }
}

/// The differences that a bucket counts, up to its bound.
fn label(bound: f64) -> String {
    match bound {
        0.0 => "none".to_owned(),
        bound if bound.is_infinite() => "more".to_owned(),
        bound => format!("up to {}", number(bound as u64)),
    }
}

fn hot(entities: &[HotEntity], min_rate: u32) -> Markup {
    if entities.is_empty() {
        return html! { p .muted { "No entity had " (min_rate) " requests per second in the last minute." } };
    }
    let rows = html! {
        @for hot in entities.iter().take(HOT) {
            @let (etype, eid) = (hot.entity.etype.as_str(), hot.entity.eid.as_str());
            tr {
                th scope="row" { a href=(entity_link(etype, eid)) { (etype) " " (eid) } }
                td .right { (format!("{:.1}", hot.reads)) }
                td .right { (format!("{:.1}", hot.writes)) }
            }
        }
    };
    table(
        "Hot entities",
        &[
            Column::Text("Entity"),
            Column::Number("Reads/s"),
            Column::Number("Writes/s"),
        ],
        &rows,
    )
}

/// The entities that are split, with their phases. Nothing without any.
fn splits(layout: &StoredLayout) -> Markup {
    if layout.splits().is_empty() {
        return html! {};
    }
    let rows = html! {
        @for (entity, state) in layout.splits() {
            @let (etype, eid) = (entity.etype.as_str(), entity.eid.as_str());
            tr {
                th scope="row" { a href=(entity_link(etype, eid)) { (etype) " " (eid) } }
                td { (state.phase.name()) }
                td .right { (state.shards) }
                td { (join_names(&state.metrics)) }
            }
        }
    };
    html! {
        h2 { "Split entities" }
        (table("Split entities", &[Column::Text("Entity"), Column::Text("Phase"), Column::Number("Shards"), Column::Text("Metrics")], &rows))
    }
}
