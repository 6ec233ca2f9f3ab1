//! Login and logout.

use super::error::ConsoleError;
use super::guard::{CheckedForm, LOGIN, is_secure, own_fields, remove_cookie, set_cookie};
use super::layout;
use crate::domain::config::Right;
use crate::domain::error::Problem;
use crate::http::app::App;
use crate::http::auth;
use crate::http::pages::Page;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use std::time::Instant;

/// The form. Without tokens in the configuration there is nothing to enter.
pub async fn form(State(app): State<App>) -> Response {
    match app.config.auth.is_enabled() {
        true => form_page(StatusCode::OK, None).into_response(),
        false => Redirect::to("/admin").into_response(),
    }
}

fn form_page(status: StatusCode, problem: Option<&str>) -> Page {
    let content = html! {
        @if let Some(problem) = problem { p .notice .problem role="alert" { (problem) } }
        form method="post" action=(LOGIN) .login {
            label for="token" { "Token with the right admin" }
            input type="password" id="token" name="token" required autocomplete="current-password";
            button .primary type="submit" { "Log in" }
        }
        p .muted { "The token is one of auth.tokens. The browser keeps a session, not the token." }
    };
    Page::with_status(status, layout::plain("Log in", &content))
}

/// Begins a session.
pub async fn login(State(app): State<App>, request: Request) -> Result<Response, ConsoleError> {
    let secure = is_secure(request.headers());
    let fields = own_fields(request, &app).await?;
    let secret = fields.iter().find(|(name, _)| name == "token");
    let secret = secret.map_or("", |(_, secret)| secret.trim());
    let name = match auth::static_token(&app, secret, Right::Admin) {
        Ok(name) => name,
        Err(Problem::Unauthorized) => {
            let page = form_page(StatusCode::UNAUTHORIZED, Some("There is no such token."));
            return Ok(page.into_response());
        }
        Err(problem) => return Err(problem.into()),
    };
    auth::record_use(&name);
    let session = app.sessions.begin(&name, secret, Instant::now())?;
    tracing::info!(token = %name, "login to the console");
    Ok(redirect("/admin", set_cookie(&session.id, secure)))
}

/// Ends the session.
pub async fn logout(State(app): State<App>, form: CheckedForm) -> Response {
    app.sessions.end(&form.session.id);
    redirect(LOGIN, remove_cookie())
}

/// A redirection that sets the cookie.
fn redirect(path: &str, cookie: Option<HeaderValue>) -> Response {
    let mut response = Redirect::to(path).into_response();
    if let Some(cookie) = cookie {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}
