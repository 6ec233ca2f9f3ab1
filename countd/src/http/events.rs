//! Handler of `POST /events`, for outbox relays.

use super::app::App;
use super::budget::RequestBody;
use super::errors::{ErrorBody, ErrorResponses, RejectedItem};
use super::items::{Items, Ndjson, ndjson_lines};
use super::rate_limit::Client;
use crate::domain::error::Problem;
use crate::domain::event::Envelope;
use crate::ingest::envelopes::RejectedEnvelope;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
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
/// again. If an envelope cannot be counted, none is appended, and `error.items` lists the rejected ones.
///
/// The envelopes count towards the rate limits of their users, unless the client's address is exempt. If one user exceeds the
/// limit, none is appended.
#[utoipa::path(
    post,
    path = "/events",
    tag = "Events",
    request_body(content(
        (Envelopes = "application/json"),
        (Ndjson<Envelope> = "application/x-ndjson")
    )),
    responses((status = 200, description = "All envelopes are in the log", body = EventsResponse), ErrorResponses)
)]
pub async fn events(
    State(app): State<App>,
    client: Client,
    headers: HeaderMap,
    mut body: RequestBody,
) -> Result<Response, Problem> {
    let items = match is_ndjson(&headers) {
        true => Items::Lines(ndjson_lines(&body)?),
        false => Items::json(&body),
    };
    let count = items.clone().count_up_to(app.config.http.max_actions)?;
    client.acquire_rest(&app.limits, count)?;
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

fn is_ndjson(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE);
    let media_type = content_type
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.split(';').next())
        .map(str::trim);
    media_type.is_some_and(|media_type| media_type.eq_ignore_ascii_case("application/x-ndjson"))
}

/// The response to invalid envelopes: 400 if one is malformed, 422 otherwise.
fn rejection(rejected: Vec<RejectedEnvelope>) -> Response {
    let is_malformed = |envelope: &RejectedEnvelope| envelope.problem.code() == "malformed";
    let (status, code) = match rejected.iter().any(is_malformed) {
        true => (StatusCode::BAD_REQUEST, "malformed"),
        false => (StatusCode::UNPROCESSABLE_ENTITY, "unprocessable"),
    };
    let mut body = ErrorBody::new(code, "no envelope was appended: some cannot be counted");
    let items = rejected.into_iter().map(|envelope| RejectedItem {
        item: envelope.item,
        event_id: envelope.event_id,
        code: envelope.problem.code(),
        message: envelope.problem.to_string(),
    });
    body.error.items = items.collect();
    (status, Json(body)).into_response()
}
