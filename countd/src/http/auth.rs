//! Authorization by bearer tokens.

use super::app::App;
use crate::domain::config::{Right, Token};
use crate::domain::error::Problem;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

/// Middleware that rejects requests without a token that has the right.
pub async fn authorize(
    State((app, right)): State<(App, Right)>,
    request: Request,
    next: Next,
) -> Response {
    let tokens = &app.config.auth.tokens;
    if tokens.is_empty() {
        return next.run(request).await;
    }
    let secret = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(bearer);
    match secret.and_then(|secret| find(tokens, secret)) {
        None => Problem::Unauthorized.into_response(),
        Some(token) if token.rights.contains(&right) => next.run(request).await,
        Some(_) => Problem::Forbidden(right.name()).into_response(),
    }
}

fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, secret) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

/// Finds a token. Each comparison takes constant time, so the duration reveals nothing about a token.
fn find<'a>(tokens: &'a [Token], secret: &str) -> Option<&'a Token> {
    let matches = |token: &&Token| bool::from(token.token.as_bytes().ct_eq(secret.as_bytes()));
    tokens.iter().find(matches)
}
