//! Error responses of the console: pages instead of JSON.

use super::layout;
use crate::domain::error::{Problem, StoreError};
use crate::http::pages::Page;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::html;

/// Why a page cannot be shown.
pub struct ConsoleError(pub Problem);

impl From<Problem> for ConsoleError {
    fn from(problem: Problem) -> ConsoleError {
        ConsoleError(problem)
    }
}

impl From<StoreError> for ConsoleError {
    fn from(error: StoreError) -> ConsoleError {
        ConsoleError(Problem::Store(error))
    }
}

impl IntoResponse for ConsoleError {
    fn into_response(self) -> Response {
        let ConsoleError(problem) = self;
        let code = problem.code();
        if code.status() >= 500 {
            tracing::warn!(error = %problem, "page not shown");
        }
        let status = StatusCode::from_u16(code.status()).unwrap_or_default();
        let content = html! {
            p .notice .problem { (problem) }
            p { a href="/admin" { "Overview" } }
        };
        Page::with_status(status, layout::plain(code.title(), &content)).into_response()
    }
}
