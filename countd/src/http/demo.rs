//! The demo: a feed of posts that two users see side by side. Its script sends requests of the API, as any client would.

use super::app::App;
use super::json::Json;
use super::pages::{Page, document};
use crate::domain::config::DEMO_METRICS;
use crate::domain::error::Problem;
use crate::log::inspect;
use axum::extract::State;
use maud::{Markup, html};
use serde::Serialize;

/// The ID of the first post; the others follow. The IDs are far from those of data that a developer would enter by hand.
const FIRST_POST: u64 = 9_000_000_001;

const POSTS: [&str; 10] = [
    "Night train to Lisbon, day one",
    "Three knives are enough",
    "A garden on four square metres",
    "What I learned from counting birds",
    "Bread with two ingredients less",
    "The quiet side of the harbour",
    "My grandmother's radio, repaired",
    "Running at minus ten degrees",
    "A map of all benches in town",
    "Letters that arrived too late",
];

/// The users: ID and name.
const USERS: [(u64, &str); 2] = [(9_000_000_101, "Ana"), (9_000_000_102, "Ben")];

/// The maximum of the slider, in events per second.
const MAX_LOAD: u32 = 5_000;

/// What the logs have.
#[derive(Serialize)]
pub struct DemoFigures {
    /// The number of events in the logs, the counted ones included.
    appended: u64,
    /// The number of events that were counted.
    counted: u64,
    /// The number of events that were not.
    lag: u64,
}

/// The figures of the logs, of all processes.
///
/// # Errors
/// Redis failed.
pub async fn figures(State(app): State<App>) -> Result<Json<DemoFigures>, Problem> {
    let totals = inspect::totals(&app.store).await?;
    Ok(Json(DemoFigures {
        appended: totals.counted + totals.uncounted,
        counted: totals.counted,
        lag: totals.uncounted,
    }))
}

/// The page.
pub async fn page() -> Page {
    let body = html! {
        header {
            h1 { "Likes, favourites and reads, each counted exactly once" }
            p .muted {
                "Ana and Ben see the same ten posts. Click a button of Ana's: Ben's counter follows. A second click takes a like back, and however "
                "often a request is repeated, it counts once. All data is in Redis. This page only calls the HTTP API of countd."
            }
            p .notice role="status" id="state" { "Connecting to countd." }
            noscript { p .notice .problem { "This page needs JavaScript: it calls the API." } }
        }
        main .columns {
            @for (uid, name) in USERS { (feed(uid, name)) }
            (side())
        }
    };
    Page::new(document("countd demo", "demo", &body))
}

/// The feed of a user.
fn feed(uid: u64, name: &str) -> Markup {
    html! {
        section data-uid=(uid) aria-labelledby={ "user-" (uid) } {
            h2 id={ "user-" (uid) } { (name) " sees" }
            ol .posts {
                @for (eid, title) in (FIRST_POST..).zip(POSTS) {
                    li data-eid=(eid) {
                        h3 { (title) }
                        div .actions {
                            @for metric in DEMO_METRICS { (button(metric)) }
                        }
                    }
                }
            }
        }
    }
}

/// A button that performs a metric, with its counter.
fn button(metric: &str) -> Markup {
    let (sign, action, is_toggle) = match metric {
        "like" => (html! { "♥" }, "Like", true),
        "fav" => (html! { "★" }, "Favourite", true),
        _ => (eye(), "Read", false),
    };
    html! {
        button type="button" data-metric=(metric) title=(action) aria-pressed=[is_toggle.then_some("false")] {
            span .hidden-text { (action) } span aria-hidden="true" { (sign) } " " span data-count { "0" }
        }
    }
}

/// The sign of reads. Few fonts have one.
fn eye() -> Markup {
    html! {
        svg .eye viewBox="0 0 24 24" {
            path d="M2 12s4-7 10-7 10 7 10 7-4 7-10 7S2 12 2 12z" {}
            circle cx="12" cy="12" r="3" {}
        }
    }
}

/// The load and the figures.
fn side() -> Markup {
    let figure = |id: &str, label: &str, has_rate: bool| {
        html! {
            div {
                dt { (label) }
                dd {
                    span .number id=(id) { "0" }
                    @if has_rate { span .muted id={ (id) "-rate" } { "0/s" } }
                }
            }
        }
    };
    html! {
        section .side aria-labelledby="side" {
            h2 id="side" { "Add a crowd" }
            label for="load" { "Load: " output id="load-value" for="load" { "0 events/s" } }
            input type="range" id="load" min="0" max=(MAX_LOAD) step="100" value="0";
            dl .figures {
                (figure("appended", "Events in the log", true))
                (figure("counted", "Events counted", true))
                (figure("lag", "Lag: events not counted yet", false))
            }
            ol {
                li { strong { "♥ and ★" } " count in the step that stores who acted." }
                li { span .hidden-text { "Read" } span aria-hidden="true" { (eye()) } " is an event of the log. A consumer adds up events and writes each counter once for many of them." }
                li { "Kill countd under load and start it again: the counters are exact." }
            }
        }
    }
}
