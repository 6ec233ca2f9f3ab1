//! The expressions of the dashboard: promtool parses them, and a real process has the metrics and labels that they use.

use super::deployed;
use super::recording::promtool;
use countint_tests::env::TempDir;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Labels that Prometheus adds to each series.
const OF_TARGETS: [&str; 2] = ["job", "instance"];
/// The variables of the dashboard, and values that Grafana may put in their place.
const VARIABLES: [(&str, &str); 2] = [("$__rate_interval", "1m"), ("$job", "countd")];
/// Words that a list of labels in parentheses follows.
const BEFORE_LABELS: [&str; 6] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];

/// An expression, and the text by which the dashboard names its series.
pub struct Query {
    pub expr: String,
    pub legend: String,
}

/// The queries of all panels, with values in place of variables.
pub fn queries() -> Vec<Query> {
    let dashboard = deployed("grafana/countd.json");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("JSON");
    let mut queries = Vec::new();
    collect(&dashboard["panels"], &mut queries);
    queries
}

fn collect(panels: &Value, queries: &mut Vec<Query>) {
    for panel in panels.as_array().into_iter().flatten() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let text = |name: &str| target[name].as_str().unwrap_or_default().to_owned();
            let mut expr = text("expr");
            for (variable, value) in VARIABLES {
                expr = expr.replace(variable, value);
            }
            let legend = text("legendFormat");
            queries.push(Query { expr, legend });
        }
        collect(&panel["panels"], queries);
    }
}

/// The labels of each metric in a text that a process exposes.
pub fn exposed_labels(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let series = line.rsplit_once(' ').map_or(line, |(series, _)| series);
        let used = used_labels(series);
        for metric in used.metrics {
            let of_metric = labels.entry(metric).or_default();
            of_metric.extend(used.matched.iter().map(|(_, label)| label.clone()));
        }
    }
    labels
}

/// What an expression uses.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct UsedLabels {
    pub metrics: BTreeSet<String>,
    /// Metrics and labels in braces after them.
    pub matched: BTreeSet<(String, String)>,
    /// Labels by which series are grouped or joined.
    pub grouped: BTreeSet<String>,
}

/// Reads an expression, or a series. The words in it are names, numbers and functions.
pub fn used_labels(expr: &str) -> UsedLabels {
    let mut used = UsedLabels::default();
    let expr = without_values(expr);
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut rest = expr.as_str();
    while let Some(at) = rest.find(is_part) {
        let word = &rest[at..];
        let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
        let (word, after) = word.split_at(end);
        let after = after.trim_start();
        rest = after;
        if let Some((labels, after)) = enclosed(after, '{', '}') {
            let names = labels.split(',').filter_map(|matcher| {
                let name = matcher.trim().split(['=', '!']).next()?.trim();
                (!name.is_empty()).then(|| (word.to_owned(), name.to_owned()))
            });
            used.matched.extend(names);
            used.metrics.insert(word.to_owned());
            rest = after;
        } else if let Some((labels, after)) =
            enclosed(after, '(', ')').filter(|_| BEFORE_LABELS.contains(&word))
        {
            let names = labels.split(',').map(|name| name.trim().to_owned());
            used.grouped.extend(names.filter(|name| !name.is_empty()));
            rest = after;
        } else if word.starts_with("countd_") || word.starts_with("process_") {
            used.metrics.insert(word.to_owned());
        }
    }
    used
}

/// Splits a text after its leading parenthesized part, whose parentheses are removed.
fn enclosed(text: &str, open: char, close: char) -> Option<(&str, &str)> {
    text.strip_prefix(open)?.split_once(close)
}

/// An expression without the texts in quotes.
fn without_values(expr: &str) -> String {
    let (mut text, mut is_quoted, mut is_escaped) = (String::new(), false, false);
    for c in expr.chars() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_quoted,
            '"' => is_quoted = !is_quoted,
            c if !is_quoted => text.push(c),
            _ => {}
        }
    }
    text
}

/// The labels that a query uses and that its metrics do not have.
pub fn unknown_labels(
    query: &Query,
    exposed: &BTreeMap<String, BTreeSet<String>>,
) -> BTreeSet<String> {
    let used = used_labels(&query.expr);
    let has = |metric: &str, label: &str| {
        let of_metric = exposed.get(metric);
        OF_TARGETS.contains(&label) || of_metric.is_some_and(|of_metric| of_metric.contains(label))
    };
    let matched = used.matched.iter();
    let matched = matched.filter(|(metric, label)| !has(metric, label));
    let matched = matched.map(|(_, label)| label.clone());
    let in_legend = query.legend.split("{{").skip(1);
    let in_legend = in_legend.filter_map(|rest| Some(rest.split_once("}}")?.0.trim().to_owned()));
    // Series that were grouped have no other labels.
    let (in_legend, lost): (BTreeSet<String>, BTreeSet<String>) =
        in_legend.partition(|label| used.grouped.is_empty() || used.grouped.contains(label));
    let of_result = used.grouped.iter().chain(&in_legend).cloned();
    let is_unknown = |label: &String| !used.metrics.iter().any(|metric| has(metric, label));
    let unknown = matched.chain(of_result.filter(is_unknown));
    unknown.chain(lost).collect()
}

/// What promtool says about expressions. `Ok` if it parses all.
fn parsed(exprs: &[&str]) -> Result<(), String> {
    let rules = exprs.iter().enumerate().map(|(index, expr)| {
        let record = format!("panel:{index}");
        json!({ "record": record, "expr": expr })
    });
    let rules: Vec<Value> = rules.collect();
    let groups = json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    let dir = TempDir::new();
    let file = dir.path().join("rules.yml");
    // YAML contains JSON.
    fs::write(&file, groups.to_string()).expect("the test's directory is writable");
    let output = promtool().args(["check", "rules"]).arg(&file).output();
    let output = output.expect("promtool runs: install the package prometheus");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(()),
        false => Err(text(&output.stdout) + &text(&output.stderr)),
    }
}

#[test]
fn promtool_parses_each_expression_of_the_dashboard() {
    let queries = queries();
    assert!(queries.len() > 40, "{}", queries.len());
    for query in &queries {
        let Query { expr, .. } = query;
        assert!(
            !expr.is_empty() && !expr.contains('$'),
            "a variable: {expr}"
        );
        assert!(!used_labels(expr).metrics.is_empty(), "no metric: {expr}");
    }
    let exprs: Vec<&str> = queries.iter().map(|query| query.expr.as_str()).collect();
    assert_eq!(parsed(&exprs), Ok(()));
    let wrong = "sum by (le (rate(countd_lag_seconds[1m])))";
    assert!(parsed(&[wrong]).is_err(), "{wrong}");
}

#[test]
fn labels_that_a_metric_does_not_have_are_noticed() {
    let text = "# HELP countd_a {x=\"\"}\ncountd_a{x=\"}\\\"{,z=\",y=\"2\"} 4\ncountd_a{x=\"3\"} 5\ncountd_b 2\n";
    let exposed = exposed_labels(text);
    let set = |names: &[&str]| -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    };
    assert_eq!(exposed["countd_a"], set(&["x", "y"]));
    assert_eq!(exposed["countd_b"], set(&[]));
    let unknown = |expr: &str, legend: &str| {
        let (expr, legend) = (expr.to_owned(), legend.to_owned());
        unknown_labels(&Query { expr, legend }, &exposed)
    };
    let right = "sum by (x, job) (rate(countd_a{job=\"a\",y!~\"b.*\"}[1m])) / on(x) countd_b";
    assert_eq!(unknown(right, "{{x}} of {{ job }}"), set(&[]));
    assert_eq!(unknown("countd_b{x=\"1\"} > countd_a", ""), set(&["x"]));
    assert_eq!(unknown("sum by (nod) (countd_a)", ""), set(&["nod"]));
    assert_eq!(unknown("max without (z) (countd_a)", ""), set(&["z"]));
    assert_eq!(unknown("countd_a", "{{node}}"), set(&["node"]));
    assert_eq!(unknown("sum by (x) (countd_a)", "{{y}}"), set(&["y"]));
}
