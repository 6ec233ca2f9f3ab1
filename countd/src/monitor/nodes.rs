//! The nodes of Redis: their memory, persistence and commands, from `INFO`.

use super::info::Info;
use super::samples::{Family, Samples};
use crate::domain::error::StoreError;
use crate::redis::store::Store;
use futures_util::future::join_all;
use redis::RedisError;
use redis::aio::ConnectionManager;

/// Commands that this file sends.
pub const PERMISSIONS: &[&str] = &["INFO everything"];

const UP: &str = "countd_redis_up";
const INFO: &str = "countd_redis_info";
const KEYS: &str = "countd_redis_keys";
const MAIN_THREAD: &str = "countd_redis_main_thread_seconds_total";
const SCRIPTS: &str = "countd_redis_scripts_total";
const CALLS: &str = "countd_redis_command_calls_total";
const SECONDS: &str = "countd_redis_command_seconds_total";
const ERRORS: &str = "countd_redis_command_errors_total";
const LATENCY: &str = "countd_redis_command_latency_seconds";
const OBJECTS: &str = "countd_redis_objects";
const ELEMENTS: &str = "countd_redis_object_elements";
const BYTES: &str = "countd_redis_object_bytes";

/// Metrics that are not one field of `INFO`.
#[rustfmt::skip]
const OTHERS: [Family; 12] = [
    Family::gauge(UP, "Whether the node answers"),
    Family::gauge(INFO, "Always 1; the labels are the version, the role and the eviction policy of the node"),
    Family::gauge(KEYS, "Keys of all databases"),
    Family::counter(MAIN_THREAD, "CPU time of the thread that runs commands"),
    Family::counter(SCRIPTS, "Calls of cached scripts, by result: hit, or miss if the server did not know the script"),
    Family::counter(CALLS, "Calls of a command that were executed, also those by scripts"),
    Family::counter(SECONDS, "Time in which a command was executed"),
    Family::counter(ERRORS, "Calls of a command that were rejected or failed"),
    Family::summary(LATENCY, "Percentiles of the execution time of a command since the node started"),
    Family::gauge(OBJECTS, "Values of a type of the module"),
    Family::gauge(ELEMENTS, "Fields, rows or members of all values of a type of the module"),
    Family::gauge(BYTES, "Memory of all values of a type of the module"),
];

/// How the text of a field is a number.
#[derive(Clone, Copy)]
enum Form {
    Number,
    /// 1 for `ok`.
    Ok,
    Microseconds,
}

/// A metric that is a field of `INFO`. A node that does not have the field has no sample.
struct Field(Family, &'static str, Form);

const fn counter(name: &'static str, field: &'static str, help: &'static str) -> Field {
    Field(Family::counter(name, help), field, Form::Number)
}

const fn gauge(name: &'static str, field: &'static str, help: &'static str) -> Field {
    Field(Family::gauge(name, help), field, Form::Number)
}

const fn status(name: &'static str, field: &'static str, help: &'static str) -> Field {
    Field(Family::gauge(name, help), field, Form::Ok)
}

#[rustfmt::skip]
const FIELDS: [Field; 26] = [
    gauge("countd_redis_uptime_seconds", "uptime_in_seconds", "Time since the node started"),
    gauge("countd_redis_clients", "connected_clients", "Connections of clients"),
    gauge("countd_redis_connected_replicas", "connected_slaves", "Connected replicas"),
    gauge("countd_redis_memory_used_bytes", "used_memory", "Memory that the node has allocated"),
    gauge("countd_redis_memory_max_bytes", "maxmemory", "The setting maxmemory; 0 for no limit"),
    counter("countd_redis_evicted_keys_total", "evicted_keys", "Keys that were deleted because memory was full"),
    gauge("countd_redis_loading", "loading", "Whether the node loads its data and answers no commands"),
    gauge("countd_redis_rdb_save_in_progress", "rdb_bgsave_in_progress", "Whether a snapshot is being saved"),
    status("countd_redis_rdb_save_ok", "rdb_last_bgsave_status", "Whether the last snapshot was saved"),
    counter("countd_redis_rdb_saves_total", "rdb_saves", "Snapshots that were saved"),
    gauge("countd_redis_rdb_last_save_timestamp_seconds", "rdb_last_save_time", "When the last snapshot was saved"),
    gauge("countd_redis_rdb_changes", "rdb_changes_since_last_save", "Changes since the last snapshot"),
    gauge("countd_redis_rdb_copy_on_write_bytes", "rdb_last_cow_size", "Memory that was copied while the last snapshot was saved"),
    gauge("countd_redis_aof_enabled", "aof_enabled", "Whether the node has an append-only file"),
    status("countd_redis_aof_write_ok", "aof_last_write_status", "Whether the last write to the append-only file succeeded"),
    status("countd_redis_aof_rewrite_ok", "aof_last_bgrewrite_status", "Whether the last rewrite of the append-only file succeeded"),
    gauge("countd_redis_aof_rewrite_in_progress", "aof_rewrite_in_progress", "Whether the append-only file is being rewritten"),
    counter("countd_redis_aof_rewrites_total", "aof_rewrites", "Rewrites of the append-only file"),
    gauge("countd_redis_aof_bytes", "aof_current_size", "Size of the append-only file"),
    gauge("countd_redis_aof_base_bytes", "aof_base_size", "Size of the append-only file after its last rewrite"),
    counter("countd_redis_aof_delayed_fsyncs_total", "aof_delayed_fsync", "Times that an fsync took so long that writes waited"),
    Field(Family::gauge("countd_redis_fork_seconds", "Duration of the last fork, in which no command was executed"), "latest_fork_usec", Form::Microseconds),
    counter("countd_redis_saturations_total", "countint_saturations", "Increments that were cut off at 0 or 2^40-1"),
    counter("countd_redis_rejected_loads_total", "countint_rejected_loads", "Values of the module that were rejected when they were loaded or restored"),
    counter("countd_redis_marks_total", "countint_marks", "Members that RBM.MARK and RBM.MMARK have added"),
    counter("countd_redis_unmarks_total", "countint_unmarks", "Members that RBM.UNMARK and RBM.MUNMARK have removed"),
];

/// The types of the module: their label, and the names of their fields in the section of the module.
const TYPES: [(&str, [&str; 3]); 3] = [
    (
        "countint",
        [
            "countint_cint_objects",
            "countint_cint_fields",
            "countint_cint_bytes",
        ],
    ),
    (
        "counttab",
        [
            "countint_ctab_objects",
            "countint_ctab_rows",
            "countint_ctab_bytes",
        ],
    ),
    (
        "idset",
        [
            "countint_rbm_objects",
            "countint_rbm_members",
            "countint_rbm_bytes",
        ],
    ),
];

/// The prefixes of the module's commands.
const PREFIXES: [&str; 3] = ["cint.", "ctab.", "rbm."];
/// Commands of the server that have statistics, too: scripts change almost everything.
const SCRIPT_COMMANDS: [&str; 2] = ["evalsha", "evalsha_ro"];
/// The percentiles of `INFO latencystats`, and the values of their label.
const QUANTILES: [(&str, &str); 3] = [("p50", "0.5"), ("p99", "0.99"), ("p99.9", "0.999")];

pub fn families() -> impl Iterator<Item = Family> {
    let fields = FIELDS.into_iter().map(|Field(family, ..)| family);
    OTHERS.into_iter().chain(fields)
}

/// The name of a node, and its reply to `INFO everything`, or why there is none.
pub type NodeReply = (String, Result<String, RedisError>);

/// Reads `INFO` of all nodes at once.
///
/// # Errors
/// The address of a node is invalid.
pub async fn replies(store: &Store) -> Result<Vec<NodeReply>, StoreError> {
    let servers = store.named_servers()?.into_iter();
    let replies = servers.map(|(name, mut server)| async move { (name, read(&mut server).await) });
    Ok(join_all(replies).await)
}

/// Reads `INFO` of all nodes at once. A node that does not answer has only the sample that it is down.
pub async fn collect(store: &Store) -> Samples {
    let replies = match replies(store).await {
        Ok(replies) => replies,
        Err(error) => {
            tracing::debug!(%error, "the nodes cannot be collected");
            return Samples::default();
        }
    };
    let nodes = replies.into_iter().map(|(name, reply)| match reply {
        Ok(text) => of_node(&name, &Info::parse(&text)),
        Err(error) => {
            tracing::debug!(node = name, %error, "a node cannot be collected");
            let mut samples = Samples::default();
            samples.add(UP, &[("node", name.as_str())], 0.0);
            samples
        }
    });
    nodes.fold(Samples::default(), Samples::and)
}

async fn read(server: &mut ConnectionManager) -> Result<String, RedisError> {
    redis::cmd("INFO")
        .arg("everything")
        .query_async(server)
        .await
}

/// The samples of a node.
fn of_node(node: &str, info: &Info<'_>) -> Samples {
    let mut samples = Samples::default();
    let label = ("node", node);
    samples.add(UP, &[label], 1.0);
    let text = |name| info.text(name).unwrap_or_default();
    let version = info.text("valkey_version").unwrap_or(text("redis_version"));
    let policy = ("policy", text("maxmemory_policy"));
    let about = [label, ("version", version), ("role", text("role")), policy];
    samples.add(INFO, &about, 1.0);
    samples.add(KEYS, &[label], info.keys());
    for Field(family, field, form) in &FIELDS {
        let value = match form {
            Form::Number => info.number(field),
            Form::Ok => info
                .text(field)
                .map(|text| f64::from(u8::from(text == "ok"))),
            Form::Microseconds => info.number(field).map(|number| number / 1e6),
        };
        if let Some(value) = value {
            samples.add(family.name, &[label], value);
        }
    }
    let cpu = ["used_cpu_sys_main_thread", "used_cpu_user_main_thread"];
    if let [Some(system), Some(user)] = cpu.map(|field| info.number(field)) {
        samples.add(MAIN_THREAD, &[label], system + user);
    }
    for (name, fields) in TYPES {
        for (metric, field) in [OBJECTS, ELEMENTS, BYTES].into_iter().zip(fields) {
            if let Some(value) = info.number(field) {
                samples.add(metric, &[label, ("type", name)], value);
            }
        }
    }
    samples.and(of_commands(node, info))
}

/// The samples of the commands of the module, and of scripts.
fn of_commands(node: &str, info: &Info<'_>) -> Samples {
    let mut samples = Samples::default();
    let label = ("node", node);
    let mut scripts = 0.0;
    for (name, statistics) in info.commands() {
        let Some(name) = reported(name) else {
            continue;
        };
        let labels = [label, ("command", name.as_str())];
        let value = |part| statistics.get(part).copied().unwrap_or(0.0);
        samples.add(CALLS, &labels, value("calls"));
        samples.add(SECONDS, &labels, value("usec") / 1e6);
        let errors = value("rejected_calls") + value("failed_calls");
        samples.add(ERRORS, &labels, errors);
        if SCRIPT_COMMANDS.contains(&name.as_str()) {
            scripts += value("calls");
        }
    }
    // A call of an unknown script is a call, too.
    let misses = info.part("errorstat_NOSCRIPT", "count").unwrap_or(0.0);
    let results = [("hit", (scripts - misses).max(0.0)), ("miss", misses)];
    for (result, count) in results {
        samples.add(SCRIPTS, &[label, ("result", result)], count);
    }
    for (name, percentiles) in info.latencies() {
        let Some(name) = reported(name) else {
            continue;
        };
        for (percentile, quantile) in QUANTILES {
            if let Some(microseconds) = percentiles.get(percentile) {
                let labels = [label, ("command", name.as_str()), ("quantile", quantile)];
                samples.add(LATENCY, &labels, microseconds / 1e6);
            }
        }
    }
    samples
}

/// The name of a command that has samples, in lower case.
fn reported(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let is_own = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    (is_own || SCRIPT_COMMANDS.contains(&name.as_str())).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::super::samples::Kind;
    use super::*;
    use std::collections::BTreeSet;

    const REPLY: &str = "redis_version:7.0.15\r\nrole:master\r\nmaxmemory_policy:noeviction\r\nused_memory:1000\r\nmaxmemory:0\r\n\
        used_cpu_sys_main_thread:1.5\r\nused_cpu_user_main_thread:2.25\r\nrdb_last_bgsave_status:err\r\naof_last_write_status:ok\r\n\
        latest_fork_usec:2500\r\ndb0:keys=3,expires=0\r\ncountint_saturations:4\r\ncountint_cint_objects:7\r\ncountint_cint_fields:35\r\n\
        countint_cint_bytes:400\r\ncmdstat_CINT.MGET:calls=10,usec=50,usec_per_call=5,rejected_calls=1,failed_calls=2\r\n\
        cmdstat_get:calls=9,usec=9\r\ncmdstat_evalsha:calls=20,usec=900\r\nerrorstat_NOSCRIPT:count=2\r\n\
        latency_percentiles_usec_CINT.MGET:p50=4,p99=8,p99.9=16\r\nlatency_percentiles_usec_get:p50=1\r\n";

    #[test]
    fn fields_of_info_become_samples() {
        let samples = of_node("a:1", &Info::parse(REPLY));
        let node = "{node=\"a:1\"}";
        let labels = |more: &str| format!("{{node=\"a:1\",{more}}}");
        for (name, labels, value) in [
            (UP, node.to_owned(), 1.0),
            (
                INFO,
                labels("version=\"7.0.15\",role=\"master\",policy=\"noeviction\""),
                1.0,
            ),
            (KEYS, node.to_owned(), 3.0),
            (MAIN_THREAD, node.to_owned(), 3.75),
            ("countd_redis_memory_used_bytes", node.to_owned(), 1000.0),
            ("countd_redis_rdb_save_ok", node.to_owned(), 0.0),
            ("countd_redis_aof_write_ok", node.to_owned(), 1.0),
            ("countd_redis_fork_seconds", node.to_owned(), 0.0025),
            ("countd_redis_saturations_total", node.to_owned(), 4.0),
            (ELEMENTS, labels("type=\"countint\""), 35.0),
            (CALLS, labels("command=\"cint.mget\""), 10.0),
            (SECONDS, labels("command=\"cint.mget\""), 0.00005),
            (ERRORS, labels("command=\"cint.mget\""), 3.0),
            (
                LATENCY,
                labels("command=\"cint.mget\",quantile=\"0.999\""),
                0.000016,
            ),
            (SCRIPTS, labels("result=\"hit\""), 18.0),
            (SCRIPTS, labels("result=\"miss\""), 2.0),
        ] {
            assert_eq!(samples.value(name, &labels), Some(value), "{name}{labels}");
        }
        assert_eq!(samples.value(CALLS, &labels("command=\"get\"")), None);
        // A server without an append-only file does not have its size.
        assert_eq!(samples.value("countd_redis_aof_bytes", node), None);
    }

    #[test]
    fn every_sample_has_a_family_of_the_right_kind() {
        let families: BTreeSet<&str> = families().map(|family| family.name).collect();
        for name in of_node("a:1", &Info::parse(REPLY)).names() {
            assert!(families.contains(name), "{name}");
        }
        for Family { name, kind, .. } in super::families() {
            assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name}");
        }
    }
}
