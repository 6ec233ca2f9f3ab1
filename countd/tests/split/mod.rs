//! Split and merge of hot entities.

mod clients;
mod model;
mod refusals;
mod threshold;

use crate::support::{printed, run};
use countint_tests::Server;
use serde_json::Value as Json;

/// Metrics without counts by day, few partitions, and quick consumers. Likes credit the author and are kept for users.
const CONFIG: &str = "[limits.user]\nper_second = 0\n[hot]\ncache_ms = 0\n[log]\npartitions = 16\nretain = 100\n[consumer]\nlinger_ms = 5\nbatch = 50\nsession_timeout_ms = 500\n";

/// Runs `countd hot` and returns the report.
fn hot(server: &Server, arguments: &[&str]) -> Json {
    let mut all = vec!["hot"];
    all.extend(arguments);
    all.push("--json");
    serde_json::from_str(&printed(&run(server, CONFIG, &all))).expect("a report")
}

/// Splits note 7.
fn split(server: &Server) -> Json {
    hot(
        server,
        &["split", "note:7", "--shards", "4", "--grace", "0"],
    )
}

/// Merges note 7.
fn merge(server: &Server) -> Json {
    hot(server, &["merge", "note:7"])
}
