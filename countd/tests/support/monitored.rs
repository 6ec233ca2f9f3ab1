//! The metrics of the logs and of the nodes of Redis, which every process exposes, whatever its role.

use super::{Api, Countd, metric};
use countint_tests::{Server, wait_until};
use std::collections::BTreeSet;

/// The metrics that a process has collected, without those of single processes.
fn collected(countd: &Countd) -> BTreeSet<String> {
    let (_, text) = countd.api().try_get("/metrics").expect("a response");
    let exposed = text.lines().filter_map(|line| {
        let name = line.strip_prefix("# TYPE ")?.split(' ').next()?;
        Some(name.to_owned())
    });
    let exposed: BTreeSet<String> = exposed.collect();
    let known = countd::monitor::descriptions();
    let known = known.map(|(name, _)| name.to_owned());
    known.filter(|name| exposed.contains(name)).collect()
}

/// Asserts that a process knows the state of Redis, which has an append-only file, and of the logs, whose events nothing counts: what a process that serves
/// knows.
#[track_caller]
pub fn assert_knows_backlog(countd: &Countd, serve: &Countd, server: &Server, backlog: u64) {
    let api = countd.api();
    wait_until("the backlog is known", || {
        metric(&api, "countd_log_lag_events") == backlog
            && metric(&api, "countd_live_consumers") == 0
    });
    assert!(metric(&api, "countd_log_entries") >= backlog);
    assert_eq!(metric(&api, "countd_dead_letters"), 0);
    for node in server.nodes() {
        assert_knows_node(&api, node);
    }
    let known = collected(countd);
    assert!(known.len() > 40, "{known:?}");
    wait_until("it knows what the other process knows", || {
        collected(serve) == known
    });
}

#[track_caller]
fn assert_knows_node(api: &Api, node: &Server) {
    let of_node = |name: &str| {
        let node = format!("{{node=\"127.0.0.1:{}\"}}", node.port());
        metric(api, &format!("countd_redis_{name}{node}"))
    };
    for name in [
        "up",
        "aof_enabled",
        "aof_write_ok",
        "aof_rewrite_ok",
        "rdb_save_ok",
    ] {
        assert_eq!(of_node(name), 1, "{name}");
    }
    for name in [
        "aof_bytes",
        "memory_used_bytes",
        "rdb_last_save_timestamp_seconds",
    ] {
        assert!(of_node(name) > 0, "{name}");
    }
}
