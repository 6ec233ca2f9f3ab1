//! `countd size`: plans for clusters, with the log in Redis and in Kafka, as the command prints them. It needs no server.

use crate::support::{printed, run_with_url};
use serde_json::Value as Json;

/// The number of partitions of the data.
const PARTITIONS: u64 = 1024;
/// Where the log is.
const LOGS: [&str; 2] = ["streams", "kafka"];
/// What requests and machines are like.
const SHAPES: [&str; 6] = [
    "",
    "--lines 100 --once 1",
    "--page 20 --statuses",
    "--storage object --once 90 --facts 50 --replicas 2",
    "--ack replicas:1 --hot-cache --hot-share 1",
    "--lines 1000 --redis-memory 128 --cores 32 --network 25 --target 75 --retention 2 --broker-disk 30",
];
/// Loads, each ten times the one before.
const LOADS: [&str; 3] = [
    "--entities 1M --actions 1k --reads 5k",
    "--entities 10M --actions 10k --reads 50k",
    "--entities 100M --actions 100k --reads 500k",
];

/// What the command prints.
fn size(arguments: &str) -> std::process::Output {
    let all: Vec<&str> = ["size"]
        .into_iter()
        .chain(arguments.split_whitespace())
        .collect();
    run_with_url("redis://127.0.0.1:1/".to_owned(), "", &all)
}

fn json(arguments: &str) -> Json {
    let printed = printed(&size(&format!("{arguments} --json")));
    serde_json::from_str(&printed).expect("JSON")
}

fn number(json: &Json) -> u64 {
    json.as_u64().expect("a number")
}

/// The masters, the machines of countd and the brokers of a plan. `None` if no cluster bears the load.
fn machines(load: &str, shape: &str, log: &str) -> Option<[u64; 3]> {
    let arguments = format!("{load} {shape} --log-kind {log}");
    let output = size(&format!("{arguments} --json"));
    if !output.status.success() {
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let reason = format!("with {PARTITIONS} masters, the most");
        assert!(text.contains(&reason), "{arguments}: {text}");
        return None;
    }
    let all: Json = serde_json::from_slice(&output.stdout).expect("JSON");
    let (plan, machines) = (&all["plan"], &all["machines"]);
    let deployment = &plan["deployment"];
    let [masters, nodes, brokers] =
        ["masters", "nodes", "brokers"].map(|name| number(&deployment[name]));
    assert!((1..=PARTITIONS).contains(&masters), "{arguments}");
    // One machine of countd may fail.
    assert!(nodes >= 2, "{arguments}");
    let servers = masters * (1 + number(&machines["replicas"]));
    assert_eq!(plan["redisServers"], servers, "{arguments}");
    let topic = number(&plan["topicPartitions"]);
    match log {
        "kafka" => {
            assert!(brokers >= 3, "{arguments}: a broker for each copy");
            assert!(topic.is_power_of_two() && topic <= PARTITIONS, "{topic}");
        }
        _ => assert_eq!((brokers, topic), (0, 0), "{arguments}"),
    }
    Some([masters, nodes, brokers])
}

#[test]
fn plans_for_both_logs_grow_with_the_load() {
    let mut clusters = 0;
    for log in LOGS {
        for shape in SHAPES {
            let plans = LOADS.map(|load| machines(load, shape, log));
            assert!(plans[0].is_some(), "{shape} {log}");
            for (smaller, larger) in plans.iter().zip(&plans[1..]) {
                let Some(larger) = larger else { continue };
                let smaller = smaller.expect("a smaller load is borne");
                let is_no_less = smaller.iter().zip(larger).all(|(one, ten)| one <= ten);
                assert!(is_no_less, "{shape} {log}: {smaller:?}, {larger:?}");
                clusters += u32::from(larger[0] > 1);
            }
        }
    }
    assert!(clusters >= 12, "{clusters} plans of clusters");
}

/// The whole numbers in a line, without the commas between thousands.
fn numbers(line: &str) -> Vec<u64> {
    let words = line.split_whitespace();
    words
        .filter_map(|word| word.replace(',', "").parse().ok())
        .collect()
}

/// The line of a text that begins with a word.
fn line<'t>(text: &'t str, begin: &str) -> &'t str {
    let found = text.lines().find(|line| line.starts_with(begin));
    found.unwrap_or_else(|| panic!("no {begin} in\n{text}"))
}

/// Asserts that the table of limits has the limits of the plan, in their order.
fn assert_limits(text: &str, limits: &Json) {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("limit "));
    lines.next();
    let rows: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let limits = limits.as_array().expect("a list");
    assert_eq!(rows.len(), limits.len(), "{text}");
    let growth = |limit: &Json| {
        let [used, constant] =
            ["used", "constant"].map(|name| limit[name].as_f64().expect("a share"));
        (1.0 - constant) / (used - constant)
    };
    let mut least = 0.0;
    for (row, limit) in rows.iter().zip(limits) {
        let used = format!(
            " {:.1} % ",
            100.0 * limit["used"].as_f64().expect("a share")
        );
        assert!(row.contains(&used), "{row}: {limit}");
        let growth = growth(limit);
        let shown = row.trim_end_matches(" x").split_whitespace().last();
        let shown: f64 = shown
            .expect("a number")
            .replace(',', "")
            .parse()
            .expect("a number");
        // Three digits are printed.
        assert!((shown / growth - 1.0).abs() < 0.01, "{row}: {growth}");
        assert!(growth >= least, "{row}: not in order");
        least = growth;
    }
    let label = rows[0].split("  ").next().expect("a label");
    let breaks = format!("\nbreaks first: {label}\n");
    assert!(text.contains(&breaks), "{breaks} {text}");
}

#[test]
fn the_text_says_what_the_json_says() {
    for log in LOGS {
        for shape in ["", SHAPES[3], SHAPES[5]] {
            let arguments = format!("{} {shape} --log-kind {log}", LOADS[1]);
            let (all, text) = (json(&arguments), printed(&size(&arguments)));
            assert_eq!(all["workload"]["log"], log);
            assert_eq!(all["workload"]["actions"], 10_000.0);
            assert_eq!(all["workload"]["reads"], 50_000.0);
            let (plan, deployment) = (&all["plan"], &all["plan"]["deployment"]);
            let of = |name: &str| number(&deployment[name]);
            let redis = [of("masters"), number(&plan["redisServers"])];
            assert_eq!(numbers(line(&text, "Redis:")), redis, "{text}");
            let countd = [of("nodes"), number(&all["machines"]["cores"])];
            assert_eq!(numbers(line(&text, "countd:")), countd, "{text}");
            match log {
                "kafka" => {
                    let kafka = [of("brokers"), number(&plan["topicPartitions"])];
                    assert_eq!(numbers(line(&text, "Kafka:")), kafka, "{text}");
                    line(&text, "topic, three copies:");
                }
                _ => {
                    assert!(
                        !text.contains("Kafka") && !text.contains("broker"),
                        "{text}"
                    );
                    line(&text, "archive, before compression:");
                }
            }
            assert_limits(&text, &plan["limits"]);
        }
    }
}
