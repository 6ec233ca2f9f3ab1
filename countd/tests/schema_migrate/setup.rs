//! Runs `countd schema migrate` as a process, and reads what clients get.

use crate::support::{Api, Running, printed, run, set_schema, workload};
use countint_tests::Server;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The configuration of all processes. Schema `v1` has no `share`.
pub static CONFIG: LazyLock<String> = LazyLock::new(|| {
    let settings = "[limits]\nuser = { per_second = 100000, burst = 1000000 }\n[log]\npartitions = 16\nretain = 100\n[consumer]\nlinger_ms = 5\nbatch = 50\nsession_timeout_ms = 500\n";
    let share = "[metrics.share]\nnature = \"repeatable\"\ncount = \"batched\"\n";
    format!("{settings}{}{share}", workload::metrics())
});
pub const PARTITIONS: u16 = 16;

/// The counters of schema `v1`, and those of `v2`: one is dropped, two are renamed, one is added, and their order differs.
pub const OLD: [&str; 5] = ["comment", "fav", "like", "read", "repost"];
pub const NEW: [&str; 5] = ["comment", "favs", "liked", "read", "share"];
/// The old and the new name of each counter that both schemas have.
pub const BOTH: [(&str, &str); 4] = [
    ("comment", "comment"),
    ("fav", "favs"),
    ("like", "liked"),
    ("read", "read"),
];

/// Creates both schemas.
#[track_caller]
pub fn set_schemas(server: &Server) {
    set_schemas_with(server, &CONFIG);
}

/// [`set_schemas`] with another configuration.
#[track_caller]
pub fn set_schemas_with(server: &Server, config: &str) {
    set_schema(server, config);
    let names = "schema set v2 comment share liked read favs";
    let words: Vec<&str> = names.split(' ').collect();
    printed(&run(server, config, &words));
}

/// The arguments of a migration of `v1` to `v2`.
pub fn arguments<'a>(options: &[&'a str]) -> Vec<&'a str> {
    let command = "schema migrate v1 v2 --map like=liked --map fav=favs";
    command.split(' ').chain(options.iter().copied()).collect()
}

/// Starts `countd schema migrate`.
pub fn start(server: &Server, options: &[&str]) -> Running {
    start_with(server, &CONFIG, options)
}

/// [`start`] with another configuration.
pub fn start_with(server: &Server, config: &str, options: &[&str]) -> Running {
    Running::start(server, config, &arguments(options))
}

/// Runs `countd schema migrate`. Returns the output.
#[track_caller]
pub fn migrate(server: &Server, options: &[&str]) -> String {
    migrate_with(server, &CONFIG, options)
}

/// [`migrate`] with another configuration.
#[track_caller]
pub fn migrate_with(server: &Server, config: &str, options: &[&str]) -> String {
    let (succeeded, output, errors) = start_with(server, config, options).end();
    assert!(succeeded, "{options:?}: {errors}");
    output
}

/// Asserts that a migration is refused.
#[track_caller]
pub fn assert_refused(server: &Server, options: &[&str], with: &str) {
    let (succeeded, output, errors) = start(server, options).end();
    assert!(!succeeded && errors.contains(with), "{output}{errors}");
}

/// All counters of a note.
#[track_caller]
pub fn counts(api: &Api, note: u64) -> BTreeMap<String, u64> {
    numbers(&api.counts(note))
}

/// The counters of a JSON object.
#[track_caller]
pub fn numbers(counts: &Json) -> BTreeMap<String, u64> {
    let counts = counts.as_object().expect("counters").iter();
    let number = |count: &Json| count.as_u64().expect("a number");
    counts
        .map(|(name, count)| (name.clone(), number(count)))
        .collect()
}

/// The names of counters.
pub fn names(counts: &BTreeMap<String, u64>) -> Vec<&str> {
    counts.keys().map(String::as_str).collect()
}
