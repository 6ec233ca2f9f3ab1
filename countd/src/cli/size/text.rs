//! A plan for people.

use super::number::{bytes, share, show};
use countd::domain::sizing::{Limit, LogKind, Machines, PARTITIONS, Percentiles, Plan, Workload};
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
        "Redis: {masters}, {} with replicas",
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
    if workload.once < 1.0 {
        let measured = "repeatable actions, until they count";
        latency(text, measured, Some(plan.latency.visible))?;
    }
    writeln!(text, "\nlimit{:>51}{:>13}", "used", "load can be")?;
    for limit in &plan.limits {
        let growth = format!("{} x", show(limit.growth()));
        writeln!(
            text,
            "{:<48}{:>8}{growth:>13}",
            limit.resource.label(),
            share(limit.used)
        )?;
    }
    if let Some(Limit { resource, used }) = plan.limits.first() {
        let what = match *used > 1.0 {
            true => "too little",
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
    let [p50, p99] = match found {
        Some(found) => [found.p50, found.p99].map(show),
        None => ["without bound"; 2].map(str::to_owned),
    };
    writeln!(text, "{what:<36}{p50:>8}{p99:>10}")
}

/// What should be known about the plan.
fn notes(workload: &Workload, plan: &Plan) -> Vec<String> {
    let masters = plan.deployment.masters;
    let mut notes = Vec::new();
    if let Some(resource) = plan.masters_because {
        notes.push(format!(
            "fewer masters would have too little: {}",
            resource.label()
        ));
    }
    if let Some(balanced) = plan.balanced_masters.filter(|balanced| *balanced < masters) {
        notes.push(format!(
            "the busiest master has {} of {PARTITIONS} partitions, because each has as many slots; with as many partitions each, {} are enough",
            plan.busiest_partitions,
            count(balanced, "master")
        ));
    }
    if plan.table_move > LONG_MOVE {
        notes.push(format!(
            "a table has {} rows: moving it to another master (resharding) blocks both for about {} s",
            show((workload.entities / PARTITIONS as f64).round()),
            show(plan.table_move)
        ));
    }
    if plan.load >= 1.0 {
        notes.push(format!(
            "a master loads its counters in about {} s when it starts",
            show(plan.load)
        ));
    }
    if !plan.measured_cluster {
        notes.push("the costs are those of one server: a cluster was not measured yet".to_owned());
    }
    if workload.log == LogKind::Kafka {
        notes.push("what brokers and producing cost is assumed, not measured".to_owned());
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
