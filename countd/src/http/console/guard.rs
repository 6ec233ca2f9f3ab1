//! Who may use the console: sessions, and the checks of requests that change something.
//!
//! A browser cannot send a bearer token with a link or a form. An operator enters the token once, and the browser gets a session as a
//! cookie, which other sites cannot use: it is `SameSite=Strict`, each form has a secret of its session, and the origin of the form is
//! compared with the host.

use super::error::ConsoleError;
use super::layout::FORM_TOKEN;
use crate::domain::config::Right;
use crate::domain::error::Problem;
use crate::http::app::App;
use crate::http::auth;
use crate::http::sessions::Session;
use axum::extract::{Form, FromRequest, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use std::time::Instant;
use subtle::ConstantTimeEq;

/// The name of the cookie.
const COOKIE: &str = "countd_console";
/// Where operators log in.
pub const LOGIN: &str = "/admin/login";

/// Requires a session, and that the token of its login is still accepted. Without tokens in the configuration everyone has one.
pub async fn require_session(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let now = Instant::now();
    let needs_token = app.config.auth.is_enabled();
    let session = cookie(request.headers()).and_then(|id| app.sessions.find(id, now));
    // A token can be removed while the process runs.
    let is_valid =
        |token: &str| !needs_token || auth::static_token(&app, token, Right::Admin).is_ok();
    if let Some(session) = session.filter(|session| is_valid(&session.token)) {
        if needs_token {
            auth::record_use(&session.name);
        }
        request.extensions_mut().insert(session);
        return next.run(request).await;
    }
    if needs_token {
        return match *request.method() {
            Method::GET | Method::HEAD => Redirect::to(LOGIN).into_response(),
            _ => ConsoleError(forbidden("the session has ended: log in again")).into_response(),
        };
    }
    let session = match app.sessions.begin("-", "", now) {
        Ok(session) => session,
        Err(problem) => return ConsoleError(problem).into_response(),
    };
    let secure = is_secure(request.headers());
    let cookie = set_cookie(&session.id, secure);
    request.extensions_mut().insert(session);
    let mut response = next.run(request).await;
    if let Some(cookie) = cookie {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// The session of a request that [`require_session`] has let pass.
impl<S: Sync> FromRequestParts<S> for Session {
    type Rejection = ConsoleError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Session, ConsoleError> {
        let session = parts.extensions.get::<Session>().cloned();
        session.ok_or_else(|| ConsoleError(Problem::Unauthorized))
    }
}

/// The fields of a form that this site has sent to this session.
pub struct CheckedForm {
    /// The session.
    pub session: Session,
    fields: Vec<(String, String)>,
}

impl CheckedForm {
    /// The first field with this name; empty if there is none.
    pub fn field(&self, name: &str) -> &str {
        let mut fields = self.fields.iter();
        let found = fields.find(|(found, _)| found == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// All fields with this name.
    pub fn fields<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let fields = self.fields.iter().filter(move |(found, _)| found == name);
        fields.map(|(_, value)| value.as_str())
    }
}

impl FromRequest<App> for CheckedForm {
    type Rejection = ConsoleError;

    async fn from_request(request: Request, app: &App) -> Result<CheckedForm, ConsoleError> {
        let session = request.extensions().get::<Session>().cloned();
        let session = session.ok_or_else(|| ConsoleError(Problem::Unauthorized))?;
        let fields = own_fields(request, app).await?;
        let form = CheckedForm { session, fields };
        let sent = form.field(FORM_TOKEN).as_bytes();
        match bool::from(sent.ct_eq(form.session.form_token.as_bytes())) {
            true => Ok(form),
            false => Err(ConsoleError(forbidden(
                "the form is not of this session: reload the page and send it again",
            ))),
        }
    }
}

/// The fields of a form of this origin.
///
/// # Errors
/// Another origin has sent the form, or it is malformed.
pub async fn own_fields(
    request: Request,
    app: &App,
) -> Result<Vec<(String, String)>, ConsoleError> {
    if !is_own_origin(request.headers()) {
        return Err(ConsoleError(forbidden("another site has sent this form")));
    }
    let form = Form::<Vec<(String, String)>>::from_request(request, app).await;
    let Form(fields) = form.map_err(|rejection| match rejection.status() {
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            Problem::UnsupportedMediaType("application/x-www-form-urlencoded")
        }
        StatusCode::PAYLOAD_TOO_LARGE => Problem::TooLarge,
        _ => Problem::Malformed(rejection.body_text()),
    })?;
    Ok(fields)
}

fn forbidden(problem: &str) -> Problem {
    Problem::Forbidden(problem.to_owned())
}

/// Whether a page of this host has sent a form: browsers tell by `Sec-Fetch-Site`, where they trust the connection, and by `Origin`.
/// Whatever tells neither is no browser that could be misused, but there is no need to permit it.
fn is_own_origin(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text(header::HeaderName::from_static("sec-fetch-site")) {
        return site == "same-origin";
    }
    let origin = text(header::ORIGIN).and_then(|origin| origin.split_once("://"));
    match (origin, text(header::HOST)) {
        (Some((_, origin)), Some(host)) => origin.eq_ignore_ascii_case(host),
        _ => false,
    }
}

/// The ID in the cookie of a request.
fn cookie(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(header::COOKIE).iter();
    let cookies = lines.flat_map(|line| line.to_str().unwrap_or_default().split(';'));
    cookies
        .filter_map(|cookie| cookie.trim().split_once('='))
        .find_map(|(name, value)| (name == COOKIE).then_some(value))
}

/// Whether the browser uses TLS. A proxy ends it, but a browser tells by the origin of its form.
pub fn is_secure(headers: &HeaderMap) -> bool {
    let origin = headers.get(header::ORIGIN).map(HeaderValue::as_bytes);
    origin.is_some_and(|origin| origin.starts_with(b"https://"))
}

/// The header that stores a session in a browser.
pub fn set_cookie(id: &str, is_secure: bool) -> Option<HeaderValue> {
    let secure = if is_secure { "; Secure" } else { "" };
    let text = format!("{COOKIE}={id}; Path=/admin; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&text).ok()
}

/// The header that removes the session from a browser.
pub fn remove_cookie() -> Option<HeaderValue> {
    let text = format!("{COOKIE}=; Path=/admin; HttpOnly; SameSite=Strict; Max-Age=0");
    HeaderValue::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn forms_of_other_origins_are_refused() {
        let host = ("host", "countd.example:8090");
        let own = [
            vec![host, ("sec-fetch-site", "same-origin")],
            vec![host, ("origin", "https://countd.example:8090")],
            vec![host, ("origin", "http://Countd.example:8090")],
        ];
        let other = [
            vec![host],
            vec![host, ("sec-fetch-site", "cross-site")],
            vec![host, ("sec-fetch-site", "same-site")],
            vec![host, ("sec-fetch-site", "none")],
            vec![
                host,
                ("sec-fetch-site", "cross-site"),
                ("origin", "https://countd.example:8090"),
            ],
            vec![host, ("origin", "https://evil.example")],
            vec![host, ("origin", "null")],
            vec![("origin", "https://countd.example:8090")],
        ];
        for lines in own {
            assert!(is_own_origin(&headers(&lines)), "{lines:?}");
        }
        for lines in other {
            assert!(!is_own_origin(&headers(&lines)), "{lines:?}");
        }
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let found = |lines: &[(&'static str, &'static str)]| cookie(&headers(lines)).map(str::len);
        assert_eq!(
            found(&[("cookie", "a=b; countd_console=abc; c=d")]),
            Some(3)
        );
        assert_eq!(
            found(&[("cookie", "a=b"), ("cookie", "countd_console=abcd")]),
            Some(4)
        );
        assert_eq!(found(&[("cookie", "xcountd_console=abc")]), None);
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn the_cookie_needs_tls_if_the_browser_has_it() {
        let secure = |origin| is_secure(&headers(&[("origin", origin)]));
        assert!(secure("https://countd.example") && !secure("http://countd.example"));
        let cookie = set_cookie("abc", true).expect("a value");
        assert!(cookie.to_str().expect("a text").ends_with("; Secure"));
    }
}
