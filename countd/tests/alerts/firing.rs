//! Every alert is fired by a test of this directory and by a unit test of the rules, and has a runbook.

use super::deployed;
use countint_tests::env;
use std::collections::BTreeSet;
use std::fs;

/// The tests of this directory that fire alerts.
const TESTS: [&str; 6] = [
    include_str!("counters.rs"),
    include_str!("counting.rs"),
    include_str!("databases.rs"),
    include_str!("files.rs"),
    include_str!("kafka.rs"),
    include_str!("redis.rs"),
];

/// The calls of the harness that fail unless the alerts of the first argument fire.
const CALLS: [&str; 2] = [".assert_fires(", ".assert_fires_in_steps("];

/// The alerts that the tests in a source file fire: those in calls of [`CALLS`] in functions that are tests, without comments and without tests that are
/// ignored.
///
/// # Panics
/// A call has no list of names: the alerts that it fires cannot be told.
fn fired(source: &str) -> BTreeSet<String> {
    let mut alerts = BTreeSet::new();
    for body in tests(source) {
        for call in CALLS {
            for arguments in body.split(call).skip(1) {
                let list = arguments.trim_start().strip_prefix("&[");
                let list = list.and_then(|list| list.split_once(']'));
                let (names, _) = list.unwrap_or_else(|| panic!("no list of names: {arguments}"));
                // Each second part is in quotes.
                alerts.extend(names.split('"').skip(1).step_by(2).map(str::to_owned));
            }
        }
    }
    alerts
}

/// The bodies of the functions that are tests and run.
fn tests(source: &str) -> Vec<String> {
    let (mut bodies, mut attributes) = (Vec::new(), Vec::new());
    let mut body: Option<String> = None;
    for line in source.lines() {
        let code = line.trim_start();
        if code.starts_with("//") {
            continue;
        }
        if let Some(mut text) = body.take() {
            if line == "}" {
                bodies.push(text);
            } else {
                text += line;
                text.push('\n');
                body = Some(text);
            }
        } else if code.starts_with("#[") {
            attributes.push(code);
        } else {
            let is_test = attributes.contains(&"#[test]");
            let is_ignored = attributes.iter().any(|of| of.starts_with("#[ignore"));
            body = (is_test && !is_ignored).then(String::new);
            attributes.clear();
        }
    }
    bodies
}

#[test]
fn every_alert_is_fired_by_a_test_and_has_a_runbook() {
    let rules = deployed("prometheus/rules.yml");
    let units = deployed("prometheus/tests.yml");
    let runbooks = fs::read_to_string(env::workspace().join("docs/countd/runbooks.md"));
    let runbooks = runbooks.expect("a page");
    let fired: BTreeSet<String> = TESTS.iter().flat_map(|source| fired(source)).collect();
    let alerts = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let alerts: Vec<&str> = alerts.collect();
    assert!(alerts.len() > 20, "{alerts:?}");
    for alert in &alerts {
        assert!(fired.contains(*alert), "{alert} is not fired by a test");
        let sample = format!("exp_samples: [{{ labels: '{{alertname=\"{alert}\"}}', value: 1 }}]");
        assert!(units.contains(&sample), "{alert} has no unit test");
        assert!(
            runbooks.contains(&format!("\n### {alert}\n")),
            "{alert} has no runbook"
        );
        let link = format!("docs/countd/runbooks.md#{}\n", alert.to_lowercase());
        assert!(rules.contains(&link), "{alert} does not name its runbook");
    }
    for alert in &fired {
        assert!(alerts.contains(&alert.as_str()), "{alert} is no alert");
    }
    for heading in runbooks
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
    {
        assert!(alerts.contains(&heading), "{heading} is no alert");
    }
    assert_eq!(rules.matches("severity:").count(), alerts.len());
}

#[test]
fn an_alert_that_is_only_named_is_not_fired() {
    let test = "#[test]\nfn noticed() {\n    let recording = Recording::default();\n    recording.assert_fires(&[\"A\", \"B\"], 10);\n    \
        recording.assert_fires_in_steps(\n        &[\n            \"C\",\n        ],\n        10, 2);\n}\n";
    let names = |source: &str| fired(source).into_iter().collect::<Vec<_>>().join(" ");
    assert_eq!(names(test), "A B C");
    assert_eq!(
        names(&format!("const NAMED: &str = \"D\";\n{test}")),
        "A B C"
    );
    assert_eq!(
        names(&test.replace("recording.assert", "// recording.assert")),
        ""
    );
    assert_eq!(names(&test.replace("#[test]", "#[test]\n#[ignore]")), "");
    assert_eq!(names(&test.replace("#[test]\n", "")), "");
    assert_eq!(
        names(&test.replace(".assert_fires(&[\"A\", \"B\"], 10)", "")),
        "C"
    );
}
