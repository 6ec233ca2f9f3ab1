//! Dead letters: listing, retrying and dropping them.

use super::error::ConsoleError;
use super::guard::CheckedForm;
use super::layout::{Column, Section, form_token, link, number, page, table, time};
use crate::domain::error::Problem;
use crate::domain::keys::Partition;
use crate::http::app::App;
use crate::http::extract::QueryParams;
use crate::http::pages::Page;
use crate::http::sessions::Session;
use crate::log::dead_letters::{self, DeadLetters, StoredDeadLetter};
use crate::repair;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;

/// The number of dead letters of a page.
const PAGE: usize = 50;
/// The number of characters of a payload that are shown.
const SHOWN: usize = 2_000;
/// The path of the page.
const PATH: &str = "/admin/dead";

/// The position of the page, and the result of an action.
#[derive(Deserialize)]
pub struct DeadParams {
    /// The last dead letter of the page before: `{partition}:{ID}`.
    after: Option<String>,
    retried: Option<u64>,
    dropped: Option<u64>,
    left: Option<u64>,
}

/// What a form does with the selected dead letters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Retry,
    Drop,
}

/// The name of a dead letter in forms and links: `{partition}:{ID}`.
fn parse(name: &str) -> Result<(Partition, &str), Problem> {
    let parts = name.split_once(':');
    let parts = parts.and_then(|(partition, id)| Some((partition.parse().ok()?, id)));
    parts.ok_or_else(|| {
        Problem::Malformed("not the partition and the ID of a dead letter".to_owned())
    })
}

/// The page.
///
/// # Errors
/// The position is invalid, or Redis failed.
pub async fn list(
    State(app): State<App>,
    session: Session,
    QueryParams(params): QueryParams<DeadParams>,
) -> Result<Page, ConsoleError> {
    let mut cursor = match params.after.as_deref() {
        None => DeadLetters::new(app.store.clone()),
        Some(name) => {
            let (partition, id) = parse(name)?;
            DeadLetters::after(app.store.clone(), partition, id)
                .map_err(|error| Problem::Malformed(error.to_string()))?
        }
    };
    let mut letters = Vec::new();
    while letters.len() <= PAGE
        && let Some(letter) = cursor.next().await?
    {
        letters.push(letter);
    }
    let has_more = letters.len() > PAGE;
    letters.truncate(PAGE);
    let count = dead_letters::count(&app.store).await?;
    let next = letters.last().filter(|_| has_more);
    let content = html! {
        p .muted { "Entries of the log that could not be counted, the oldest first: " (number(count)) "." }
        @if let Some((done, verb)) = params.retried.map(|done| (done, "retried")).or(params.dropped.map(|done| (done, "dropped"))) {
            p .notice role="status" { (done) " " (verb) ", " (params.left.unwrap_or(0)) " left" }
        }
        @if letters.is_empty() { p { "There are no dead letters here." } } @else { (selection(&session, &letters)) }
        @if let Some(last) = next {
            p { a href=(link(PATH, &[("after", &format!("{}:{}", last.partition, last.id))])) { "Later dead letters" } }
        }
    };
    Ok(page(Section::DeadLetters, &session, &content))
}

/// The columns of the table of dead letters.
const COLUMNS: [Column; 6] = [
    Column::Boxes("Select"),
    Column::Text("Time (UTC)"),
    Column::Text("Reason"),
    Column::Text("Kind"),
    Column::Text("Partition / offset"),
    Column::Text("Payload"),
];

/// The form with the dead letters.
fn selection(session: &Session, letters: &[StoredDeadLetter]) -> Markup {
    let rows = html! {
        @for letter in letters {
            @let name = format!("{}:{}", letter.partition, letter.id);
            tr {
                td { input type="checkbox" name="id" value=(name) aria-label={ "Select dead letter " (letter.id) }; }
                td { (time(letter.ts)) }
                td { (letter.reason) @if !letter.can_be_retried() { br; span .muted { "cannot be retried" } } }
                td { (letter.kind) }
                td { (letter.partition) " / " (letter.offset) }
                td { (payload(letter)) }
            }
        }
    };
    html! {
        form method="post" action=(PATH) data-select-all {
            (form_token(session))
            (table("Dead letters", &COLUMNS, &rows))
            p .buttons {
                button .primary type="submit" name="action" value="retry" { "Retry the selected" }
                button .danger type="submit" name="action" value="drop" { "Drop the selected" }
            }
        }
    }
}

fn payload(letter: &StoredDeadLetter) -> Markup {
    let shown: String = letter.payload.chars().take(SHOWN).collect();
    html! {
        code { (shown) }
        @if shown.len() < letter.payload.len() || letter.payload.len() < letter.length {
            span .muted { " (" (letter.length) " bytes)" }
        }
    }
}

/// Retries or drops the selected dead letters. Dropping needs a confirmation.
///
/// # Errors
/// The form is invalid, or Redis failed. After an error some may have been retried or dropped.
pub async fn act(State(app): State<App>, form: CheckedForm) -> Result<Response, ConsoleError> {
    let action = match form.field("action") {
        "retry" => Action::Retry,
        "drop" => Action::Drop,
        _ => return Err(Problem::Malformed("action: must be retry or drop".to_owned()).into()),
    };
    let names: Vec<&str> = form.fields("id").collect();
    if names.len() > PAGE {
        return Err(Problem::TooMany(PAGE).into());
    }
    let mut letters = Vec::with_capacity(names.len());
    for name in &names {
        let (partition, id) = parse(name)?;
        letters.push(dead_letters::get(&app.store, partition, id).await?);
    }
    if action == Action::Drop && !names.is_empty() && form.field("confirmed") != "yes" {
        let letters: Vec<StoredDeadLetter> = letters.into_iter().flatten().collect();
        return Ok(confirmation(&form.session, &letters).into_response());
    }
    let mut done = 0;
    for letter in letters.iter().flatten() {
        let is_removed = match action {
            Action::Retry => repair::retry(&app.store, &app.config, letter).await?,
            Action::Drop => dead_letters::delete(&app.store, letter).await?,
        };
        done += usize::from(is_removed);
    }
    let (token, verb) = (&form.session.name, action.verb());
    tracing::info!(%token, ids = names.join(" "), done, "dead letters {verb}");
    let (done, left) = (done.to_string(), (names.len() - done).to_string());
    let path = link(PATH, &[(verb, &done), ("left", &left)]);
    Ok(Redirect::to(&path).into_response())
}

impl Action {
    fn verb(self) -> &'static str {
        match self {
            Action::Retry => "retried",
            Action::Drop => "dropped",
        }
    }
}

/// The page that asks whether the dead letters are to be dropped.
fn confirmation(session: &Session, letters: &[StoredDeadLetter]) -> Page {
    let content = html! {
        p { "Drop " (letters.len()) " dead letters? Their events will never be counted." }
        ul { @for letter in letters { li { (letter.id) ": " (letter.reason) " " (payload(letter)) } } }
        form method="post" action=(PATH) {
            (form_token(session))
            input type="hidden" name="action" value="drop";
            input type="hidden" name="confirmed" value="yes";
            @for letter in letters { input type="hidden" name="id" value={ (letter.partition) ":" (letter.id) }; }
            p .buttons {
                button .danger type="submit" { "Drop them" }
                a href=(PATH) { "Back to the dead letters" }
            }
        }
    };
    page(Section::DeadLetters, session, &content)
}
