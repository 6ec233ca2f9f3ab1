//! Outbox relays over HTTP.

use super::App;
use super::budget::Raw;
use super::errors::{ErrorBody, ErrorResponses, RefusedItem};
use super::items::{Items, lines};
use super::limits::Client;
use super::writes::Lines;
use crate::domain::error::Problem;
use crate::domain::event::Envelope;
use crate::ingest::envelopes::Refused;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

/// One envelope, or many.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "it describes; bodies are read item by item")]
pub enum Envelopes<'a> {
    /// One.
    One(Envelope<'a>),
    /// Many.
    Many(Vec<Envelope<'a>>),
}

/// What became of envelopes.
#[derive(Serialize, ToSchema)]
pub struct Accepted {
    /// How many are in the log now. Those that were sent before are among them; they will not count again.
    accepted: usize,
}

/// Events from the outbox of another system.
///
/// The body is an envelope, an array of envelopes, or (with the content type `application/x-ndjson`) an envelope on each line. They
/// are appended to the log in this order, and counted a moment later. After a 200 they are as durable as the store. An `event_id`
/// that was counted within the window (`dedup.event_window_seconds`) does not count again, so what is not sure to have arrived
/// may be sent again. If one of them cannot be counted, none is appended, and `items` of the answer says which and why. They count
/// for the limits of their users, unless the sender's address is exempt from limits; if one user is beyond his, none is appended.
#[utoipa::path(
    post,
    path = "/events",
    request_body(content(
        (Envelopes = "application/json"),
        (Lines<Envelope> = "application/x-ndjson")
    )),
    responses((status = 200, description = "They are in the log", body = Accepted), ErrorResponses)
)]
pub async fn events(
    State(app): State<App>,
    client: Client,
    headers: HeaderMap,
    mut body: Raw,
) -> Result<Response, Problem> {
    let items = match is_ndjson(&headers) {
        true => Items::Lines(lines(&body)?),
        false => Items::json(&body),
    };
    let count = items.clone().count(app.config.http.max_actions)?;
    client.pay(&app.limits, count)?;
    // All of them are there: they have been counted.
    let items = items.filter_map(Result::ok);
    let checked = match app.envelopes.check_envelopes(items).await? {
        Ok(checked) => checked,
        Err(refused) => return Ok(refusal(refused)),
    };
    body.free();
    if !client.is_exempt() {
        app.limits.users.take_all(&checked.users).await?;
    }
    app.envelopes.append_envelopes(&checked).await?;
    let accepted = checked.count;
    metrics::counter!("countd_events_appended_total").increment(accepted as u64);
    Ok(Json(Accepted { accepted }).into_response())
}

fn is_ndjson(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE);
    let essence = content_type
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.split(';').next())
        .map(str::trim);
    essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/x-ndjson"))
}

/// 400 if one of them is malformed, else 422.
fn refusal(refused: Vec<Refused>) -> Response {
    let code = |code: &str| refused.iter().any(|one| one.problem.code() == code);
    let (status, code) = match code("malformed") {
        true => (StatusCode::BAD_REQUEST, "malformed"),
        false => (StatusCode::UNPROCESSABLE_ENTITY, "unfit"),
    };
    let mut failure = ErrorBody::new(
        code,
        "nothing was appended: some envelopes cannot be counted",
    );
    let items = refused.into_iter().map(|one| RefusedItem {
        item: one.item,
        event_id: one.event_id,
        code: one.problem.code(),
        message: one.problem.to_string(),
    });
    failure.error.items = items.collect();
    (status, Json(failure)).into_response()
}
