//! The routes of pages. They are no part of the API: no document describes them, and they have no prefix.

use super::app::App;
use super::{assets, console, demo};
use axum::Router;
use axum::routing::get;

/// Routes of pages. They check sessions themselves.
pub struct PageGroup {
    /// Whether the routes use the data: then clients are limited.
    pub use_data: bool,
    /// The routes, at least one.
    pub routes: Router<App>,
}

/// The routes of the pages that the configuration enables.
pub fn all(app: &App) -> Vec<PageGroup> {
    let settings = &app.config.http;
    let mut groups = Vec::new();
    let mut add = |use_data, routes| groups.push(PageGroup { use_data, routes });
    if settings.console {
        add(true, console::routes(app));
    }
    if settings.demo {
        add(false, Router::new().route("/demo", get(demo::page)));
        let figures = Router::new().route("/demo/figures", get(demo::figures));
        add(true, figures);
    }
    if settings.console || settings.demo {
        let assets = Router::new().route("/assets/{name}", get(assets::asset));
        add(false, assets);
    }
    groups
}
