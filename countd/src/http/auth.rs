//! Authentication by bearer tokens: static tokens of services, and JSON Web Tokens of users.

use super::app::App;
use super::request_log;
use crate::domain::config::{Nature, Right, Token};
use crate::domain::error::Problem;
use crate::domain::ids::{Id, Name};
use crate::domain::op::Op;
use crate::ingest::actions::Action;
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use std::convert::Infallible;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Who sends a request.
#[derive(Clone, Default)]
pub struct Caller {
    /// The user of a JSON Web Token. `None` for a service, which acts for any user.
    uid: Option<Id>,
    /// The name of the token; `None` without tokens.
    name: Option<Arc<str>>,
}

impl Caller {
    /// The name of the token, for the audit; `-` without tokens.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("-")
    }

    /// Checks that the caller may act for a user.
    ///
    /// # Errors
    /// [`Problem::UidMismatch`].
    pub fn check_uid(&self, uid: &Id) -> Result<(), Problem> {
        match &self.uid {
            Some(own) if own != uid => Err(Problem::UidMismatch),
            _ => Ok(()),
        }
    }

    /// Checks that the caller may send an action on a metric. A user acts for themselves. Unless `[auth.jwt]` permits it, they do not
    /// decide for other users either: who the author of an entity is, and that an action was not performed.
    ///
    /// # Errors
    /// [`Problem::UidMismatch`] or [`Problem::Forbidden`].
    pub fn check_action(&self, app: &App, metric: &str, action: &Action) -> Result<(), Problem> {
        let Some(own) = &self.uid else {
            return Ok(());
        };
        self.check_uid(&action.uid)?;
        let jwt = &app.config.auth.jwt;
        let names_other = action.author.as_ref().is_some_and(|author| author != own);
        if names_other && !jwt.may_name_authors {
            return Err(Problem::Forbidden(
                "author: the token of a user permits only the user's own ID".to_owned(),
            ));
        }
        // Nothing records which user performed a repeatable metric, so a removal may undo the action of another user.
        let is_repeatable = |metric: &str| {
            let metric = app.catalog.metric(metric);
            metric.is_ok_and(|(_, metric)| metric.nature == Nature::Repeatable)
        };
        let removes = action.op == Some(Op::Remove) && is_repeatable(metric);
        if removes && !jwt.may_remove_repeatable {
            return Err(Problem::Forbidden(
                "op: the token of a user does not permit removals of a repeatable metric"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Whether the caller is a user, who acts only for themselves.
    pub fn is_user(&self) -> bool {
        self.uid.is_some()
    }

    /// Checks that the caller is a service, for requests that are not about one user.
    ///
    /// # Errors
    /// [`Problem::Forbidden`].
    pub fn check_service(&self) -> Result<(), Problem> {
        match self.uid {
            Some(_) => Err(Problem::Forbidden(
                "the token of a user does not permit this request".to_owned(),
            )),
            None => Ok(()),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

/// Checks that a request has a token with the right, and records its caller. Used only if tokens are configured.
///
/// # Errors
/// [`Problem::Unauthorized`] or [`Problem::Forbidden`].
pub fn authorize(app: &App, right: Right, request: &mut Request) -> Result<(), Problem> {
    let headers = request.headers();
    let secret = headers.get(header::AUTHORIZATION).and_then(bearer);
    let tokens = app.tokens.load();
    let (name, rights, caller) = match secret.and_then(|secret| find(&tokens, secret)) {
        Some(token) => {
            let name = name_of(token);
            let caller = Caller {
                uid: None,
                name: Some(name.into()),
            };
            (name, &token.rights, caller)
        }
        None => {
            let verify = |secret| app.jwt.as_ref()?.verify(secret);
            let uid = secret.and_then(verify).ok_or(Problem::Unauthorized)?;
            let caller = Caller {
                uid: Some(uid),
                name: Some("jwt".into()),
            };
            ("jwt", &app.config.auth.jwt.rights, caller)
        }
    };
    record_use(name);
    if !rights.contains(&right) {
        return Err(missing(right));
    }
    request.extensions_mut().insert(caller);
    Ok(())
}

/// The static token with this secret, if it has a right. A JSON Web Token is of a user, and none of these.
///
/// # Errors
/// [`Problem::Unauthorized`] or [`Problem::Forbidden`].
pub fn static_token(app: &App, secret: &str, right: Right) -> Result<Arc<str>, Problem> {
    let tokens = app.tokens.load();
    let token = find(&tokens, secret).ok_or(Problem::Unauthorized)?;
    match token.rights.contains(&right) {
        true => Ok(name_of(token).into()),
        false => Err(missing(right)),
    }
}

/// Records the use of a token in the metrics and in the log line of the request.
pub fn record_use(name: &str) {
    metrics::counter!("countd_token_requests_total", "token" => name.to_owned()).increment(1);
    request_log::record_token(name);
}

fn missing(right: Right) -> Problem {
    Problem::Forbidden(format!(
        "the token does not have the right {}",
        right.name()
    ))
}

fn name_of(token: &Token) -> &str {
    token.name.as_ref().map_or("unnamed", Name::as_str)
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
