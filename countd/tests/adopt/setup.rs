//! Runs `countd storage adopt` as a process, and inspects what it has done.

use crate::model::with_other_fact_stores;
use crate::support::{Api, Running, on_note, run, wait_until_drained, with, workload};
use countint_tests::{Server, reply, wait_until};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;

const SETTINGS: &str = "[limits]\nuser = { per_second = 100000, burst = 1000000 }\n[log]\npartitions = 16\nretain = 100\n[consumer]\nlinger_ms = 5\nbatch = 50\nsession_timeout_ms = 500\n[dedup]\nevents = \"forever\"\n";
/// A configuration whose facts are sets of IDs.
pub static CONFIG: LazyLock<String> =
    LazyLock::new(|| format!("{SETTINGS}{}", with_short_timelines(&workload::metrics())));
/// A configuration with the other fact stores.
pub static OTHER_FACT_STORES: LazyLock<String> =
    LazyLock::new(|| format!("{SETTINGS}{}", with_other_fact_stores(&workload::metrics())));
pub const PARTITIONS: u16 = 16;

/// Timelines with few times: older facts move on.
fn with_short_timelines(metrics: &str) -> String {
    let mut config = metrics.to_owned();
    for (metric, more) in [
        ("like", "order = \"time\"\nlatest = 20\n"),
        ("fav", "latest = 3\n"),
    ] {
        let table = format!("[metrics.{metric}]\n");
        assert!(config.contains(&table), "{config}");
        config = config.replace(&table, &format!("{table}{more}"));
    }
    config
}

/// A line of `POST /actions`.
pub fn action(metric: &str, note: u64, uid: u64) -> Json {
    with(on_note(note, uid), json!({ "metric": metric }))
}

/// Sends actions, and waits until they are counted.
pub fn send_all(server: &Server, api: &Api, actions: &[Json]) {
    for page in actions.chunks(100) {
        let lines: Vec<String> = page.iter().map(Json::to_string).collect();
        let (status, replies) = api
            .try_post("/actions", &lines.join("\n"))
            .expect("a response");
        let succeeded = replies
            .lines()
            .filter(|line| line.contains("\"changed\":true"));
        assert_eq!((status, succeeded.count()), (200, page.len()), "{replies}");
    }
    wait_until_drained(server, PARTITIONS);
}

/// Starts `countd storage adopt`.
pub fn start(server: &Server, config: &str, options: &[&str]) -> Running {
    let mut arguments = vec!["storage", "adopt", "--grace", "1"];
    arguments.extend(options);
    Running::start(server, config, &arguments)
}

/// Converts all data. Returns the output.
#[track_caller]
pub fn adopt(server: &Server, config: &str) -> String {
    let (succeeded, output, errors) = start(server, config, &[]).end();
    assert!(succeeded, "{errors}");
    output
}

/// Waits until the layout has a value of `counters`.
pub fn wait_for_layout(server: &Server, step: &str) {
    let mut client = server.client();
    wait_until(&format!("the layout is {step}"), || {
        reply::text(client.ok("HGET countd:layout counters")) == step
    });
}

/// Starts an adoption, and kills it when the layout has a value of `counters`.
pub fn advance(server: &Server, config: &str, step: &str) {
    let adopting = start(server, config, &[]);
    wait_for_layout(server, step);
    adopting.kill();
    // Otherwise the next one waits until the lock expires.
    server.client().ok("DEL countd:migrate");
}

/// How many calls the server has refused, because their process did not follow an adoption yet.
pub fn refused_calls(server: &Server) -> u64 {
    let errors = server.client().info("errorstats");
    let refused = errors.get("errorstat_OLDLAYOUT");
    let count = refused.and_then(|count| count.strip_prefix("count=")?.parse().ok());
    count.unwrap_or(0)
}

/// What of the data still has a form that data with the module does not have: keys, and members of keys with their keys.
pub fn not_converted(server: &Server) -> Vec<String> {
    let mut client = server.client();
    let mut found = Vec::new();
    let is_number = |id: &str| {
        id.parse::<u64>()
            .is_ok_and(|number| number.to_string() == id)
    };
    for key in reply::array(client.ok("KEYS *")) {
        let key = reply::text(key);
        let kind = reply::text(client.ok(&format!("TYPE {key}")));
        let prefix = key.split(':').next().unwrap_or_default();
        let members = match (prefix, kind.as_str()) {
            ("cnt" | "ucnt", "string") | ("rbm", "set") => {
                found.push(key);
                continue;
            }
            ("act", "set") if key.starts_with("act:events:") => {
                found.push(key);
                continue;
            }
            ("rtl" | "wtl", "zset") => client.ok(&format!("ZRANGE {key} 0 -1")),
            ("rev", "set") => client.ok(&format!("SMEMBERS {key}")),
            ("toth" | "auth", "hash") => client.ok(&format!("HKEYS {key}")),
            _ => continue,
        };
        let members = reply::array(members).into_iter().map(reply::text);
        found.extend(
            members
                .filter(|member| is_number(member))
                .map(|member| format!("{key} {member}")),
        );
    }
    found
}

/// Asserts that all data has the module's types, and that `countd check` has nothing to note about it.
#[track_caller]
pub fn assert_adopted(server: &Server, config: &str) {
    let left = not_converted(server);
    assert!(left.is_empty(), "{} are left: {left:.30?}", left.len());
    let mut client = server.client();
    let counters = reply::text(client.ok("HGET countd:layout counters"));
    assert_eq!(counters, "module");
    let output = run(server, config, &["check"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(!text.contains("created without"), "{text}");
}
