//! Handler of `POST /events`, for outbox relays.

use super::app::App;
use super::auth::Caller;
use super::budget::RequestBody;
use super::errors::{ErrorResponses, ItemError, ProblemDetails};
use super::extract::{MediaType, media_type};
use super::items::{Items, Ndjson, ndjson_lines};
use super::rate_limit::Client;
use crate::domain::error::{ErrorCode, Problem};
use crate::domain::event::Envelope;
use crate::ingest::envelopes::RejectedEnvelope;
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

/// One envelope, or an array of envelopes.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "schema only: bodies are parsed item by item")]
pub enum Envelopes<'a> {
    /// One envelope.
    One(Envelope<'a>),
    /// An array of envelopes.
    Many(Vec<Envelope<'a>>),
}

/// The result of appending envelopes.
#[derive(Serialize, ToSchema)]
pub struct EventsResponse {
    /// The number of envelopes in the log, including repeated ones, which will not count again.
    accepted: usize,
}

/// Append events
///
/// Appends the events of another system's outbox to the log, in order; the consumer counts them a moment later. The body is an
/// envelope, an array of envelopes or, with the content type `application/x-ndjson`, one envelope per line.
///
/// Retries are safe: an `event_id` that was counted within the deduplication window (`dedup.event_window_seconds`) does not count
/// again. If an envelope cannot be counted, none is appended, and `errors` lists the rejected ones.
///
/// The envelopes count towards the rate limits of their users, unless the client's address is exempt. If one user exceeds the
/// limit, none is appended.
#[utoipa::path(
    post,
    path = "/events",
    tag = "Events",
    request_body(content(
        (Envelopes = "application/json", example = json!([{ "event_id": "repost-114327608932745216-1", "event_type": "repost", "aggregate_type": "note", "aggregate_id": "114327608932745216", "payload": { "delta": 1, "uid": "113984275610238976" } }])),
        (Ndjson<Envelope> = "application/x-ndjson", example = json!([{ "event_id": "repost-114327608932745216-1", "event_type": "repost", "aggregate_type": "note", "aggregate_id": "114327608932745216", "payload": { "delta": 1, "uid": "113984275610238976" } }]))
    )),
    responses((status = 200, description = "All envelopes are in the log", body = EventsResponse, example = json!({ "accepted": 1 })), ErrorResponses)
)]
pub async fn events(
    State(app): State<App>,
    client: Client,
    caller: Caller,
    headers: HeaderMap,
    mut body: RequestBody,
) -> Result<Response, Problem> {
    caller.check_service()?;
    let items = match media_type(&headers) {
        Some(MediaType::Ndjson) => Items::Lines(ndjson_lines(&body)?),
        _ => Items::json(&body),
    };
    let count = items.clone().count_up_to(app.config.http.max_actions)?;
    client.acquire_rest(&app.limits, count).await?;
    // Counting has validated all items.
    let items = items.filter_map(Result::ok);
    let envelopes = match app.envelopes.validate(items).await? {
        Ok(envelopes) => envelopes,
        Err(rejected) => return Ok(rejection(rejected)),
    };
    body.release_bytes();
    if !client.is_exempt() {
        app.limits.users.acquire_all(&envelopes.users).await?;
    }
    app.envelopes.append(&envelopes).await?;
    let accepted = envelopes.count;
    metrics::counter!("countd_events_appended_total").increment(accepted as u64);
    Ok(Json(EventsResponse { accepted }).into_response())
}

/// The response to invalid envelopes: `malformed` if one is malformed, `unprocessable` otherwise.
fn rejection(rejected: Vec<RejectedEnvelope>) -> Response {
    let is_malformed =
        |envelope: &RejectedEnvelope| envelope.problem.code() == ErrorCode::Malformed;
    let code = match rejected.iter().any(is_malformed) {
        true => ErrorCode::Malformed,
        false => ErrorCode::Unprocessable,
    };
    let mut details = ProblemDetails::new(code, "no envelope was appended: some cannot be counted");
    let errors = rejected.into_iter().map(|envelope| ItemError {
        item: Some(envelope.item),
        event_id: envelope.event_id,
        ..ItemError::of(&envelope.problem)
    });
    details.errors = errors.collect();
    details.into_response()
}
