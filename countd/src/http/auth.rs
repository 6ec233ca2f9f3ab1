//! ClientKey may do what: bearer tokens with rights.

use super::App;
use super::errors::ErrorBody;
use crate::domain::config::{Right, Token};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

/// Lets requests pass that have a right.
pub async fn check(
    State((app, right)): State<(App, Right)>,
    request: Request,
    next: Next,
) -> Response {
    let tokens = &app.config.auth.tokens;
    if tokens.is_empty() {
        return next.run(request).await;
    }
    let given = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(bearer);
    match given.and_then(|given| find(tokens, given)) {
        None => {
            let failure = ErrorBody::new(
                "unauthorized",
                "a bearer token of countd's configuration is needed",
            );
            let challenge = [(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))];
            (StatusCode::UNAUTHORIZED, challenge, Json(failure)).into_response()
        }
        Some(token) if token.rights.contains(&right) => next.run(request).await,
        Some(_) => {
            let failure = ErrorBody::new(
                "forbidden",
                format!("this token has not the right {right:?}"),
            );
            (StatusCode::FORBIDDEN, Json(failure)).into_response()
        }
    }
}

fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// How long it takes does not tell how much of a token was right.
fn find<'a>(tokens: &'a [Token], given: &str) -> Option<&'a Token> {
    let is_it = |token: &&Token| bool::from(token.token.as_bytes().ct_eq(given.as_bytes()));
    tokens.iter().find(is_it)
}
