//! The alerts of deploy/prometheus/rules.yml: real processes in each kind of trouble are scraped, and promtool computes which alerts fire.

mod counters;
mod counting;
mod databases;
mod files;
mod kafka;
mod recording;
mod redis;

use crate::support::kafka::{Mock, config};
use crate::support::{Countd, Running, Settings, metric, on_note, printed, run, set_schema};
use countint_tests::{Server, env, wait_until};
use recording::{Recording, promtool};
use std::collections::BTreeSet;
use std::fs;

/// Few partitions, and a state that is collected each second.
const CONFIG: &str = "[log]\npartitions = 4\n[consumer]\nlinger_ms = 5\nsession_timeout_ms = 1000\n[monitor]\ninterval_seconds = 1\n";

/// Partitions of the data and of the topic, with Kafka as the log.
const KAFKA_PARTITIONS: u16 = 16;
const TOPIC_PARTITIONS: i32 = 4;

/// A configuration with Kafka as the log, and a state that is collected each second.
fn config_of(mock: &Mock, more: &str) -> String {
    let config = config(&mock.addresses(), KAFKA_PARTITIONS, more);
    config + "[monitor]\ninterval_seconds = 1\n"
}

/// Rounds that compare everything each second, and correct every difference.
const ROUNDS: &str =
    "[reconcile]\ninterval_seconds = 1\nsample = 1\nmin_difference = 0\nmin_percent = 0\n";

/// Starts a process.
fn start(server: &Server, command: &'static str, config: &str) -> Countd {
    Countd::with(server, &Settings { command, config })
}

/// Starts a migration of the schema to one without reposts.
fn start_schema_migration(server: &Server, config: &str) -> Running {
    printed(&run(
        server,
        config,
        &["schema", "set", "v2", "read", "like", "fav", "comment"],
    ));
    Running::start(server, config, &["schema", "migrate", "v1", "v2"])
}

/// The value of a metric of Redis.
fn of_redis(countd: &Countd, server: &Server, name: &str) -> u64 {
    let node = format!(
        "countd_redis_{name}{{node=\"127.0.0.1:{}\"}}",
        server.port()
    );
    metric(&countd.api(), &node)
}

/// Waits until a process has collected the state of Redis and of the logs.
fn wait_until_collected(countd: &Countd) {
    wait_until("the state is collected", || {
        let (_, text) = countd.api().try_get("/metrics").expect("a response");
        text.contains("\ncountd_redis_up{") && text.contains("\ncountd_log_lag_events ")
    });
}

#[test]
fn no_alert_fires_for_healthy_processes() {
    let server = Server::builder().append_only(true).start();
    set_schema(&server, CONFIG);
    let (serve, consume) = (
        start(&server, "serve", CONFIG),
        start(&server, "consume", CONFIG),
    );
    let api = serve.api();
    let mut recording = Recording::default();
    for user in 0..3 {
        api.act("like", on_note(1, user));
        api.act("read", on_note(1, user));
        wait_until("all is counted, and known in both processes", || {
            [&serve, &consume].iter().all(|countd| {
                let api = countd.api();
                metric(&api, "countd_log_lag_events") == 0
                    && metric(&api, "countd_log_counted_total") == 2 * (user + 1)
                    && metric(&api, "countd_live_consumers") == 1
            })
        });
        recording.scrape(&[("serve", &serve), ("consume", &consume)]);
    }
    recording.assert_silent();
}

/// The names in a text that begin like those of metrics.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c: char| !is_part(c));
    let names = words.filter(|word| word.starts_with("countd_") || word.starts_with("process_"));
    names.map(str::to_owned).collect()
}

fn deployed(path: &str) -> String {
    fs::read_to_string(env::workspace().join("deploy").join(path)).expect("a text")
}

/// The expressions of the rules, or of the dashboard: other texts have names of groups and links.
fn expressions(text: &str) -> String {
    let lines = text.lines().filter(|line| {
        let line = line.trim_start();
        ["expr:", "\"expr\":", "\"query\":"]
            .iter()
            .any(|key| line.starts_with(key))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// promtool takes a word of these names for the type or the unit of the metric. It is what the metric counts.
const NO_TYPES: [&str; 4] = [
    "countd_counter_difference ",
    "countd_counter_writes_total ",
    "countd_days_archived_total ",
    "countd_days_damaged_total ",
];

#[test]
fn rules_and_dashboard_use_only_metrics_of_a_real_process() {
    let server = Server::builder().append_only(true).start();
    // Those of a topic exist with Kafka as the log.
    let mock = Mock::start(TOPIC_PARTITIONS);
    let config = format!("{}{ROUNDS}", config_of(&mock, ""));
    let countd = Countd::start(&server, &config);
    wait_until_collected(&countd);
    // Its metric exists while it is under way.
    let (migrated, _, errors) = start_schema_migration(&server, &config).end();
    assert!(migrated, "{errors}");
    // Histograms exist from their first sample on, and the statistics of a command from its first call on.
    countd.api().act("like", on_note(1, 7));
    let mut exposed = BTreeSet::new();
    wait_until("all metrics are exposed", || {
        let (_, text) = countd.api().try_get("/metrics").expect("a response");
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        exposed = samples.flat_map(metrics_in).collect();
        [
            "countd_redis_command_latency_seconds",
            "countd_event_age_seconds_bucket",
            "countd_counter_difference_bucket",
            "countd_topic_lag_records",
            "countd_schema_migration_reads_ratio",
        ]
        .iter()
        .all(|name| exposed.contains(*name))
    });
    for file in ["prometheus/rules.yml", "grafana/countd.json"] {
        let used = metrics_in(&expressions(&deployed(file)));
        assert!(used.len() > 20, "{file}: {used:?}");
        for name in used {
            assert!(exposed.contains(&name), "{file}: {name}");
        }
    }
    let (_, text) = countd.api().try_get("/metrics").expect("a response");
    let dir = env::TempDir::new();
    let file = dir.path().join("metrics");
    fs::write(&file, text).expect("the test's directory is writable");
    let linted = promtool()
        .args(["check", "metrics"])
        .stdin(fs::File::open(&file).expect("a file"))
        .output();
    let linted = linted.expect("promtool runs: install the package prometheus");
    let printed = String::from_utf8_lossy(&linted.stderr).into_owned();
    // It prints advice, and fails with 3 for that, with 1 for a text that is not metrics.
    let code = linted.status.code();
    assert!(code == Some(0) || code == Some(3), "{code:?}: {printed}");
    let is_expected = |line: &str| NO_TYPES.iter().any(|name| line.starts_with(name));
    let advice: Vec<&str> = printed.lines().filter(|line| !is_expected(line)).collect();
    assert!(advice.is_empty(), "{advice:?}");
}

#[test]
fn every_alert_is_fired_by_a_test_and_has_a_runbook() {
    let rules = deployed("prometheus/rules.yml");
    let units = deployed("prometheus/tests.yml");
    let runbooks = fs::read_to_string(env::workspace().join("docs/countd/runbooks.md"));
    let runbooks = runbooks.expect("a page");
    let tests = [
        include_str!("counters.rs"),
        include_str!("counting.rs"),
        include_str!("databases.rs"),
        include_str!("files.rs"),
        include_str!("kafka.rs"),
        include_str!("redis.rs"),
    ];
    let alerts = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let alerts: Vec<&str> = alerts.collect();
    assert!(alerts.len() > 20, "{alerts:?}");
    for alert in &alerts {
        let quoted = format!("\"{alert}\"");
        let is_fired = tests.iter().any(|test| test.contains(&quoted));
        assert!(is_fired, "{alert} is not fired by a test");
        assert!(
            units.contains(&format!("{{alertname=\"{alert}\"}}")),
            "{alert} has no unit test"
        );
        assert!(
            runbooks.contains(&format!("\n### {alert}\n")),
            "{alert} has no runbook"
        );
        let link = format!("docs/countd/runbooks.md#{}\n", alert.to_lowercase());
        assert!(rules.contains(&link), "{alert} does not name its runbook");
    }
    for heading in runbooks
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
    {
        assert!(alerts.contains(&heading), "{heading} is no alert");
    }
    assert_eq!(rules.matches("severity:").count(), alerts.len());
}
