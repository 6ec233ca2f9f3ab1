//! Responses with HTML.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

/// Scripts, styles and requests of this origin only. No page has an inline script or style.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A page.
pub struct Page {
    status: StatusCode,
    markup: Markup,
}

impl Page {
    /// A page with status 200.
    pub fn new(markup: Markup) -> Page {
        Page::with_status(StatusCode::OK, markup)
    }

    /// A page with another status.
    pub fn with_status(status: StatusCode, markup: Markup) -> Page {
        Page { status, markup }
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        // With `no-referrer` browsers would send forms without their origin.
        const HEADERS: [(HeaderName, &str); 5] = [
            (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "same-origin"),
            (header::CACHE_CONTROL, "no-store"),
            (header::X_FRAME_OPTIONS, "DENY"),
        ];
        let headers = HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value)));
        (self.status, headers, Html(self.markup.into_string())).into_response()
    }
}

/// A document. `name` selects its style sheet and its script: `demo` or `console`.
pub fn document(title: &str, name: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                link rel="icon" href="/assets/icon.svg";
                link rel="stylesheet" href="/assets/base.css";
                link rel="stylesheet" href={ "/assets/" (name) ".css" };
                script src={ "/assets/" (name) ".js" } defer {}
            }
            body { (body) }
        }
    }
}
