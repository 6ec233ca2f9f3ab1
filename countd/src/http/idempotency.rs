//! The headers `Idempotency-Key` and `Idempotent-Replayed`.

use crate::domain::error::Problem;
use crate::domain::ids::{Id, Invalid};
use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::HeaderValue;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

const KEY_HEADER: &str = "idempotency-key";
const REPLAYED_HEADER: &str = "idempotent-replayed";

/// The idempotency key in the header of a request: an ID, with or without quotes.
pub struct IdempotencyKey(Option<Id>);

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<IdempotencyKey, Problem> {
        let mut values = parts.headers.get_all(KEY_HEADER).iter();
        let Some(value) = values.next() else {
            return Ok(IdempotencyKey(None));
        };
        let invalid = || Problem::Invalid(KEY_HEADER.to_owned(), Invalid::Id);
        let text = value.to_str().map_err(|_| invalid())?.trim();
        let quoted = text
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'));
        let key = Id::new(quoted.unwrap_or(text)).map_err(|_| invalid())?;
        match values.next() {
            None => Ok(IdempotencyKey(Some(key))),
            Some(_) => Err(invalid()),
        }
    }
}

impl IdempotencyKey {
    /// The key of the header or of the body, which must be equal if both exist.
    ///
    /// # Errors
    /// They differ.
    pub fn or_field(self, field: Option<Id>) -> Result<Option<Id>, Problem> {
        match (self.0, field) {
            (Some(header), Some(field)) if header != field => Err(Problem::Unprocessable(
                "idempotencyKey: differs from the header Idempotency-Key".to_owned(),
            )),
            (header, field) => Ok(header.or(field)),
        }
    }

    /// Rejects the header where each item has its own key.
    ///
    /// # Errors
    /// The request has the header.
    pub fn reject(self) -> Result<(), Problem> {
        match self.0 {
            None => Ok(()),
            Some(_) => Err(Problem::Unprocessable(
                "the header Idempotency-Key is not allowed: each line has its own idempotencyKey"
                    .to_owned(),
            )),
        }
    }
}

/// A JSON response, with the header `Idempotent-Replayed` if it is the first answer to the same idempotency key.
pub fn respond(body: impl Serialize, replayed: bool) -> Response {
    let mut response = Json(body).into_response();
    if replayed {
        let value = HeaderValue::from_static("true");
        response.headers_mut().insert(REPLAYED_HEADER, value);
    }
    response
}
