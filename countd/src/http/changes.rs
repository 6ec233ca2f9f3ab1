//! Handler of `GET /changes`.

use super::app::App;
use super::auth::Caller;
use super::errors::ErrorResponses;
use super::extract::QueryParams;
use crate::domain::error::Problem;
use crate::domain::ids::Name;
use crate::query::changes::{ChangeEvent, KEEP_ALIVE, TypeChanges};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName};
use axum::response::IntoResponse;
use axum::response::sse::{Event, Sse};
use futures_util::stream;
use serde::Deserialize;
use std::convert::Infallible;
use std::time::Instant;
use utoipa::IntoParams;

/// The header with the ID of the last event that the client has.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The maximum number of types in `etype`.
const MAX_TYPES: usize = 100;

/// The query parameters of changes.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ChangesParams {
    /// A comma-separated list of entity types. By default, all types and `user`.
    #[param(
        pattern = "^[A-Za-z][A-Za-z0-9_-]{0,31}(,[A-Za-z][A-Za-z0-9_-]{0,31})*$",
        example = "note,user"
    )]
    etype: Option<String>,
}

/// Follow changes of counters
///
/// Server-sent events with the entities and users whose counters changed, for clients that cache counters. The connection stays open. `data`
/// is a list of entities, each once in about 200 ms. Each change is announced at least once, after the counter has changed. A client that
/// reconnects with `Last-Event-ID` gets what it missed. The event `reset` means that changes may be missing: read all cached counters again.
/// Requires `changes.enabled`, otherwise the path does not exist, and a static token, if tokens are configured.
#[utoipa::path(
    get,
    path = "/changes",
    tag = "Changes",
    params(
        ChangesParams,
        ("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event that the client has", pattern = "^[0-9]{1,19}$", example = "1795348800000")
    ),
    responses(
        (
            status = 200,
            description = "The events. `data` is a list of `Entity`",
            body = String,
            content_type = "text/event-stream",
            example = json!("id: 1795348800000\ndata: [{\"etype\":\"note\",\"eid\":\"114327608932745216\"}]\n\n")
        ),
        ErrorResponses
    )
)]
pub async fn changes(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    QueryParams(params): QueryParams<ChangesParams>,
) -> Result<impl IntoResponse, Problem> {
    let changes = app.changes.as_ref().ok_or(Problem::NoRoute)?;
    // The changes are those of all users.
    caller.check_service()?;
    let types = params.etype.map(|types| entity_types(&app, &types));
    let types = types.transpose()?;
    let events = changes.subscribe(last_event_id(&headers)?).await?;
    let selection = Selection {
        types,
        sent: Instant::now(),
    };
    let events = stream::unfold((events, selection), async |(mut events, mut selection)| {
        loop {
            let event = events.recv().await?;
            if let Some(event) = selection.next_event(event, Instant::now()) {
                return Some((Ok::<_, Infallible>(event), (events, selection)));
            }
        }
    });
    // Proxies must not buffer the events.
    let headers = [(HeaderName::from_static("x-accel-buffering"), "no")];
    Ok((headers, Sse::new(events)))
}

fn entity_types(app: &App, list: &str) -> Result<Vec<Name>, Problem> {
    let mut types = Vec::new();
    for etype in list.split(',') {
        let etype =
            Name::new(etype).map_err(|error| Problem::Invalid("etype".to_owned(), error))?;
        app.catalog.schema_id(&etype)?;
        if types.len() == MAX_TYPES {
            return Err(Problem::TooMany(MAX_TYPES));
        }
        types.push(etype);
    }
    Ok(types)
}

/// The position that the client has, if it resumes.
fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get(LAST_EVENT_ID) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let position = digits.then(|| text.parse().ok()).flatten();
    let problem = || Problem::Malformed("Last-Event-ID: not the id of an event".to_owned());
    position.map(Some).ok_or_else(problem)
}

/// The types that a client follows.
struct Selection {
    /// `None` for all types.
    types: Option<Vec<Name>>,
    /// When the client last got an event, and with it its position.
    sent: Instant,
}

impl Selection {
    /// An event with the changes of these types. Without such changes it has only the position, if the client got none for a while: the
    /// client then resumes from a position that is still retained. `None` if there is nothing to send.
    fn next_event(&mut self, event: ChangeEvent, now: Instant) -> Option<Event> {
        let with_id = |position: u64| Event::default().id(position.to_string());
        let event = match event {
            ChangeEvent::Changed {
                position,
                types: changed,
            } => {
                let types = self.types.as_deref();
                let is_selected =
                    |one: &&TypeChanges| types.is_none_or(|types| types.contains(&one.etype));
                let selected = changed.iter().filter(is_selected);
                let lists: Vec<&str> = selected.map(|one| one.json.as_str()).collect();
                match lists.is_empty() {
                    false => with_id(position).data(format!("[{}]", lists.join(","))),
                    true if now.saturating_duration_since(self.sent) < KEEP_ALIVE => return None,
                    true => keep_alive(position),
                }
            }
            ChangeEvent::Reset { position } => with_id(position).event("reset").data("[]"),
            ChangeEvent::KeepAlive { position } => keep_alive(position),
        };
        self.sent = now;
        Some(event)
    }
}

/// A client takes the ID of an event without data, but does not dispatch it.
fn keep_alive(position: u64) -> Event {
    Event::default()
        .id(position.to_string())
        .comment("keep-alive")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_client_without_changes_of_its_types_gets_its_position() {
        let name = |text: &str| Name::new(text).expect("a name");
        let changed = |etype: &str| ChangeEvent::Changed {
            position: 7,
            types: [TypeChanges {
                etype: name(etype),
                json: "{}".to_owned(),
            }]
            .into(),
        };
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        let mut selection = Selection {
            types: Some(vec![name("rare")]),
            sent: begin,
        };
        // Events of another type arrive all the time.
        let sent =
            (1..=25).filter(|now| selection.next_event(changed("note"), after(*now)).is_some());
        assert_eq!(sent.collect::<Vec<_>>(), [10, 20]);
        assert!(selection.next_event(changed("rare"), after(26)).is_some());
        assert!(selection.next_event(changed("note"), after(35)).is_none());
        assert!(selection.next_event(changed("note"), after(36)).is_some());
    }
}
