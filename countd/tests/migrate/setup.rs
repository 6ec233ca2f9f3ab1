//! Runs `countd storage migrate` as a process, and inspects what it has done.

use crate::support::{Running, run, workload};
use countint_tests::{Client, Server, reply, wait_until};
use std::sync::LazyLock;

/// A configuration whose new data has tables. The tests begin with data that has objects.
pub static CONFIG: LazyLock<String> = LazyLock::new(|| {
    let settings = "[limits]\nuser = { per_second = 100000, burst = 1000000 }\n[log]\npartitions = 16\nretain = 100\n[consumer]\nlinger_ms = 5\nbatch = 50\nsession_timeout_ms = 500\n";
    format!("{settings}{}", workload::metrics())
});
pub const PARTITIONS: u16 = 16;

/// Starts `countd storage migrate`.
pub fn start(server: &Server, target: &str, options: &[&str]) -> Running {
    start_with(server, &CONFIG, target, options)
}

/// [`start`] with another configuration.
pub fn start_with(server: &Server, config: &str, target: &str, options: &[&str]) -> Running {
    let mut arguments = vec!["storage", "migrate", target, "--grace", "1"];
    arguments.extend(options);
    Running::start(server, config, &arguments)
}

/// Moves all counters of a target. Returns the output.
#[track_caller]
pub fn migrate(server: &Server, target: &str) -> String {
    let (succeeded, output, errors) = start(server, target, &[]).end();
    assert!(succeeded, "{errors}");
    output
}

/// Waits until all processes follow an epoch of the layout.
pub fn wait_for_epoch(client: &mut Client, epoch: i64) {
    wait_until("all processes follow the layout", || {
        let members = reply::array(client.ok("ZRANGE countd:processes 0 -1"));
        let follows = |member| reply::text(member).split('/').nth(1) == Some(&epoch.to_string());
        !members.is_empty() && members.into_iter().all(follows)
    });
}

/// The keys of objects whose counters should be rows.
pub fn objects_of_numbers(client: &mut Client) -> Vec<String> {
    let keys = reply::array(client.ok("KEYS *cnt:*"));
    let keys = keys.into_iter().map(reply::text);
    let is_number = |key: &str| {
        let key = key.split(":{").next().unwrap_or(key);
        let id = key.rsplit(':').next().unwrap_or_default();
        (key.starts_with("cnt:") || key.starts_with("ucnt:")) && id.parse::<u64>().is_ok()
    };
    keys.filter(|key| is_number(key)).collect()
}

/// Asserts that nothing is left to move, and that `countd check` says so.
#[track_caller]
pub fn assert_migrated(servers: &[&Server]) {
    for server in servers {
        assert_eq!(objects_of_numbers(&mut server.client()), [""; 0]);
    }
    let output = run(servers[0], &CONFIG, &["check"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(!text.contains("note: counters"), "{text}");
    assert!(!text.contains("was left"), "{text}");
}
