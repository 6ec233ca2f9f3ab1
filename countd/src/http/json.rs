//! JSON responses.

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// A JSON response, for the routes of pages. axum's own writes each piece of the JSON through `BytesMut`, which takes half as many
/// instructions again as writing to a vector.
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        FormattedJson(format(&self.0)).into_response()
    }
}

/// A JSON response with a formatted body, which may be shared.
pub struct FormattedJson(pub Result<Bytes, serde_json::Error>);

impl IntoResponse for FormattedJson {
    fn into_response(self) -> Response {
        let Ok(body) = self.0 else {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        };
        let mut response = Response::new(Body::from(body));
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        response
    }
}

/// Formats the body of a response.
///
/// # Errors
/// The value has no JSON.
pub fn format(value: &impl Serialize) -> Result<Bytes, serde_json::Error> {
    serde_json::to_vec(value).map(Bytes::from)
}
