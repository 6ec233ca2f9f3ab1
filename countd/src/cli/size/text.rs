//! A plan for people.

use super::number::{bytes, rough, share, show};
use countd::domain::sizing::{
    Limit, LogKind, Machines, MeasuredKafka, PARTITIONS, Percentiles, Plan, Workload,
};
use std::fmt::Write;

/// A table that blocks a master for longer than this while it is moved is worth a note, in seconds.
const LONG_MOVE: f64 = 0.1;

/// The text that `countd size` prints.
pub fn render(workload: &Workload, machines: &Machines, plan: &Plan) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = write(&mut text, workload, machines, plan);
    text
}

fn write(
    text: &mut String,
    workload: &Workload,
    machines: &Machines,
    plan: &Plan,
) -> std::fmt::Result {
    let deployment = plan.deployment;
    let masters = count(deployment.masters, "master");
    writeln!(
        text,
        "Redis: {masters}, {} including replicas",
        count(plan.redis_servers, "server")
    )?;
    let machine = count(deployment.nodes, "machine");
    writeln!(
        text,
        "countd: {machine} of {}",
        count(machines.cores, "core")
    )?;
    if workload.log == LogKind::Kafka {
        let brokers = count(deployment.brokers, "broker");
        writeln!(
            text,
            "Kafka: {brokers}, {}",
            count(plan.topic_partitions, "partition")
        )?;
    }
    let memory = &plan.memory;
    writeln!(
        text,
        "memory of all masters: {}: counters {}, facts {}, log {}, backlog after {} minutes {}",
        bytes(memory.total()),
        bytes(memory.counters),
        bytes(memory.facts),
        bytes(memory.log),
        show(workload.outage / 60.0),
        bytes(memory.backlog),
    )?;
    let kept = match workload.log {
        LogKind::Streams => "archive, before compression",
        LogKind::Kafka => "topic, three copies",
    };
    writeln!(text, "{kept}: {}", bytes(plan.retained_bytes))?;
    let cores = &plan.cores;
    writeln!(
        text,
        "busy cores: clients {}, countd {}, busiest master {}",
        show(cores.clients),
        show(cores.countd),
        show(cores.busiest_master)
    )?;
    writeln!(
        text,
        "network: busiest master {}/s, a machine of countd {}/s",
        bytes(plan.network.busiest_master),
        bytes(plan.network.countd)
    )?;
    writeln!(text, "\nlatency, ms{:>33}{:>10}", "p50", "p99")?;
    latency(text, "reads", plan.latency.read)?;
    latency(
        text,
        "actions, until they are confirmed",
        plan.latency.write,
    )?;
    if let Some(error) = plan.model_error {
        let [p50, p99] =
            [error.p50_percent, error.p99_percent].map(|error| format!("{} %", show(error)));
        latency_row(text, "largest measured error of the model", [p50, p99])?;
    }
    if workload.once < 1.0 {
        let measured = "repeatable actions, until they count";
        latency(text, measured, Some(plan.latency.visible))?;
    }
    writeln!(text, "\nlimit{:>51}{:>13}", "used", "headroom")?;
    for limit in &plan.limits {
        let growth = format!("{} x", show(limit.growth()));
        writeln!(
            text,
            "{:<48}{:>8}{growth:>13}",
            limit.resource.label(),
            share(limit.used)
        )?;
    }
    if let Some(Limit { resource, used, .. }) = plan.limits.first() {
        let what = match *used > 1.0 {
            true => "exceeded",
            false => "breaks first",
        };
        writeln!(text, "\n{what}: {}", resource.label())?;
    }
    for note in notes(workload, plan) {
        writeln!(text, "note: {note}")?;
    }
    Ok(())
}

/// A number of things.
fn count(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", show(number as f64))
}

fn latency(text: &mut String, what: &str, found: Option<Percentiles>) -> std::fmt::Result {
    let percentiles = match found {
        Some(found) => [found.p50, found.p99].map(rough),
        None => ["overload"; 2].map(str::to_owned),
    };
    latency_row(text, what, percentiles)
}

fn latency_row(text: &mut String, what: &str, [p50, p99]: [String; 2]) -> std::fmt::Result {
    writeln!(text, "{what:<36}{p50:>8}{p99:>10}")
}

/// Why the plan has as many machines as it has, how long operations block a master, and which costs were measured.
fn notes(workload: &Workload, plan: &Plan) -> Vec<String> {
    let masters = plan.deployment.masters;
    let mut notes = Vec::new();
    if let Some(resource) = plan.masters_because {
        notes.push(format!(
            "fewer masters would exceed the target: {}",
            resource.label()
        ));
    }
    if let Some(balanced) = plan.balanced_masters.filter(|balanced| *balanced < masters) {
        notes.push(format!(
            "the busiest master has {} of {PARTITIONS} partitions, because slots are spread evenly and partitions are not; with evenly spread partitions, {} are enough",
            plan.busiest_partitions,
            count(balanced, "master")
        ));
    }
    if plan.table_move > LONG_MOVE {
        notes.push(format!(
            "a table has {} rows: moving it to another master (resharding) blocks both for about {} s",
            show((workload.entities / PARTITIONS as f64).round()),
            rough(plan.table_move)
        ));
    }
    if plan.load >= 1.0 {
        notes.push(format!(
            "a master loads its counters in about {} s when it starts",
            rough(plan.load)
        ));
    }
    if !plan.measured_cluster {
        notes.push("the costs are those of one server: a cluster was not measured yet".to_owned());
    }
    if workload.log == LogKind::Kafka {
        notes.push(kafka_note(plan.measured_kafka).to_owned());
    }
    notes.push(match plan.model_error {
        Some(error) => format!(
            "the model differed from a measurement by at most {} % of the CPU time, {} % of the median latency, {} % of the p99",
            show(error.cpu_percent),
            show(error.p50_percent),
            show(error.p99_percent)
        ),
        None => "the error of the model was not measured on a quiet machine yet".to_owned(),
    });
    notes
}

/// Which costs of Kafka are measured, and which are assumed.
fn kafka_note(measured: MeasuredKafka) -> &'static str {
    match (measured.producing, measured.counting) {
        (false, _) => "the costs of producing and of brokers are assumed, not measured",
        (true, false) => {
            "the costs of producing and the CPU time of brokers are measured, with one broker; their disk throughput, and the cost of counting from the topic into objects, are assumed"
        }
        (true, true) => {
            "the costs of producing and counting and the CPU time of brokers are measured, with one broker; their disk throughput is assumed"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{output_from, page};
    use countd::domain::sizing::Figures;
    use countint_tests::env;
    use serde_json::{Map, Value};
    use std::fs;

    const KAFKA: &str =
        "countd size --entities 1M --actions 100k --reads 10k --lines 100 --log-kind kafka";
    const OF_KAFKA: &str = r#"{
        "countd.kafka.long-tail.produced-client-ns": 400, "countd.kafka.long-tail.produced-countd-ns": 3000,
        "countd.kafka.long-tail.produced-broker-ns": 2000, "countd.kafka.long-tail.counted-countd-ns": 1500,
        "countd.kafka.long-tail.counted-redis-ns": 900, "countd.kafka.long-tail.counted-broker-ns": 1000,
        "countd.kafka.hot.counted-countd-ns": 1200, "countd.kafka.hot.counted-redis-ns": 300,
        "countd.kafka.latency-p50-ms": 2.0, "countd.kafka.latency-p99-ms": 9.0
    }"#;
    const OF_THE_MODEL: &str = r#"{
        "countd.sizing.cpu-error-percent": 9, "countd.sizing.p50-error-percent": 14, "countd.sizing.p99-error-percent": 31
    }"#;

    /// What a command prints with the figures of this version, whose figures of Kafka and of the model are replaced by `others`.
    fn printed(command: &str, others: &str) -> String {
        let file = env::workspace().join("docs/benchmarks.json");
        let text = fs::read_to_string(file).expect("the figures can be read");
        let object =
            |text: &str| -> Map<String, Value> { serde_json::from_str(text).expect("JSON") };
        let mut figures = object(&text);
        figures.retain(|name, _| {
            !name.starts_with("countd.kafka.") && !name.starts_with("countd.sizing.")
        });
        figures.extend(object(others));
        let figures = Figures::parse(&Value::Object(figures).to_string()).expect("figures");
        output_from(&figures, &page::command(command)).expect("a plan")
    }

    #[test]
    fn costs_of_kafka_are_assumed_or_measured() {
        let limit = "\nCPU of the brokers ";
        let assumed = printed(KAFKA, "{}");
        let note = "\nnote: the costs of producing and of brokers are assumed, not measured\n";
        assert!(
            assumed.contains(note) && !assumed.contains(limit),
            "{assumed}"
        );
        let measured = printed(KAFKA, OF_KAFKA);
        let note = "\nnote: the costs of producing and counting and the CPU time of brokers are measured, with one broker; their disk throughput is assumed\n";
        assert!(
            measured.contains(note) && measured.contains(limit),
            "{measured}"
        );
        let objects = printed(&format!("{KAFKA} --storage object"), OF_KAFKA);
        let note = "; their disk throughput, and the cost of counting from the topic into objects, are assumed\n";
        assert!(
            objects.contains(note) && objects.contains(limit),
            "{objects}"
        );
        let streams = KAFKA.trim_end_matches(" --log-kind kafka");
        assert_eq!(printed(streams, OF_KAFKA), printed(streams, "{}"));
    }

    #[test]
    fn the_error_of_the_model_is_measured_or_not() {
        let unmeasured = printed(KAFKA, "{}");
        let note = "\nnote: the error of the model was not measured on a quiet machine yet\n";
        assert!(unmeasured.ends_with(note), "{unmeasured}");
        let row = "\nlargest measured error of the model ";
        assert!(!unmeasured.contains(row), "{unmeasured}");
        let measured = printed(KAFKA, OF_THE_MODEL);
        let note = "\nnote: the model differed from a measurement by at most 9 % of the CPU time, 14 % of the median latency, 31 % of the p99\n";
        assert!(measured.ends_with(note), "{measured}");
        // Below the percentiles that it applies to.
        let row = format!("{row}    14 %      31 %\n");
        assert!(measured.contains(&row), "{measured}");
    }
}
