//! The routes of the console.

use super::{audit, dead, entity, guard, login, overview, reconciliation, schemas, user};
use crate::http::app::App;
use crate::log;
use crate::maintenance::{progress, storage};
use crate::monitor::differences;
use crate::query;
use crate::redis::permissions::Permissions;
use crate::redis::processes::CONSUMER_PERMISSIONS;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

/// The maximum length of a form in bytes.
const MAX_FORM: usize = 64 * 1024;

/// The routes, with the check of sessions.
pub fn routes(app: &App) -> Router<App> {
    let pages = Router::new()
        .route("/admin", get(overview::overview))
        .route("/admin/figures", get(overview::figures))
        .route("/admin/entity", get(entity::entity))
        .route("/admin/user", get(user::user))
        .route("/admin/dead", get(dead::list).post(dead::act))
        .route("/admin/audit", get(audit::audit))
        .route("/admin/reconciliation", get(reconciliation::reconciliation))
        .route("/admin/schemas", get(schemas::schemas))
        .route("/admin/logout", post(login::logout))
        .route_layer(from_fn_with_state(app.clone(), guard::require_session));
    pages
        .route("/admin/login", get(login::form).post(login::login))
        .layer(DefaultBodyLimit::max(MAX_FORM))
}

/// The permissions that the console requires besides those of the API and of retries.
pub fn console_permissions() -> Permissions {
    log::dead_letter_permissions()
        .and(query::audit::required_permissions())
        .and(progress::required_permissions())
        .and(storage::recorded_permissions())
        .and(differences::reader_permissions())
        .and(Permissions::of_commands(CONSUMER_PERMISSIONS))
}
