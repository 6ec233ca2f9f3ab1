//! Values with valid framing that are invalid in one place each: the module refuses every one, without allocating memory
//! for it.

use super::forged::{Expect, Forged, Kind, LoadPath};
use super::inject::Injector;
use super::random::Random;
use super::{
    forged_bodies, forged_portables, forged_tables, leaks_nothing, quiet_server, rejected_loads,
};
use countint_tests::{Client, Server, args, env, reply, wait_until};
use std::fs;

fn invalid_imports() -> Vec<Forged> {
    forged_portables::invalid_portables()
        .into_iter()
        .map(|(what, _, bytes)| Forged::new(what, bytes, Expect::Refusal))
        .collect()
}

fn valid_imports() -> Vec<Forged> {
    forged_portables::valid_portables()
        .into_iter()
        .map(|(what, _, bytes)| Forged::new(what, bytes, Expect::Load))
        .collect()
}

#[test]
fn invalid_values_are_refused_and_counted() {
    let server = quiet_server();
    let mut injector = Injector::new(server.client());
    for (kind, values) in [
        (Kind::Counters, forged_bodies::invalid_counters()),
        (Kind::Set, forged_bodies::invalid_sets()),
        (Kind::Table, forged_tables::invalid_tables()),
    ] {
        let before = rejected_loads(&mut injector.client);
        let outcomes = injector.inject(kind, LoadPath::Restore, values);
        assert_eq!(outcomes.refused, outcomes.sent);
        assert_eq!(rejected_loads(&mut injector.client) - before, outcomes.sent);
    }
    let log = server.log();
    for kind in [Kind::Counters, Kind::Set, Kind::Table] {
        let line = format!(
            "refused a {} payload that is damaged or forged",
            kind.name()
        );
        assert!(log.contains(&line), "not in the log: {line}");
    }
}

#[test]
fn invalid_imports_are_refused() {
    let server = quiet_server();
    let mut injector = Injector::new(server.client());
    injector.inject(Kind::Set, LoadPath::Import, invalid_imports());
    injector.inject(Kind::Set, LoadPath::Import, valid_imports());
    let lengths = [0, 1, 4, 6, 9, 11, 26, 327_674, 327_676, 327_680, 655_350];
    let counters =
        lengths.map(|len| Forged::new(format!("{len} bytes"), vec![7; len], Expect::Refusal));
    injector.inject(Kind::Counters, LoadPath::Import, counters);
    injector.inject(
        Kind::Table,
        LoadPath::Import,
        forged_tables::invalid_exports(),
    );
    injector.inject(
        Kind::Table,
        LoadPath::Import,
        forged_tables::valid_exports(),
    );
}

#[test]
fn refused_import_leaves_the_set_unchanged() {
    let server = quiet_server();
    let mut client = server.client();
    client.ok("RBM.ADD k 1 2 3 70000 18446744073709551615");
    let before = client.digest();
    for forged in invalid_imports() {
        let reply = client.call(&args!["RBM.IMPORT", "k", forged.bytes]);
        assert_eq!(
            reply::format(&reply),
            "(error) ERR invalid payload",
            "{}",
            forged.what
        );
        assert_eq!(client.digest(), before, "{}", forged.what);
    }
}

#[test]
fn unusual_valid_values_are_loaded() {
    let mut server = quiet_server();
    let inject = |server: &Server| {
        Injector::new(server.client()).inject(
            Kind::Set,
            LoadPath::Restore,
            forged_bodies::valid_sets(),
        );
        Injector::new(server.client()).inject(
            Kind::Table,
            LoadPath::Restore,
            forged_tables::valid_tables(),
        )
    };
    inject(&server);
    leaks_nothing(&mut server, |server| {
        inject(server);
    });
}

#[test]
fn sets_damaged_within_valid_framing_are_refused_or_valid() {
    let mut server = quiet_server();
    let inject = |server: &Server, seed| {
        let mut random = Random::new(seed);
        let mut portables = forged_portables::valid_portables();
        portables.retain(|(_, len, _)| *len < 10_000);
        let count = (3000.0 / env::slow()) as usize;
        let values: Vec<Forged> = (0..count)
            .map(|i| {
                let (_, len, bytes) = &portables[i % portables.len()];
                forged_bodies::damaged_inside(bytes, *len, &mut random)
            })
            .collect();
        let mut injector = Injector::new(server.client());
        let before = rejected_loads(&mut injector.client);
        let outcomes = injector.inject(Kind::Set, LoadPath::Restore, values);
        println!("{outcomes:?}");
        assert_eq!(
            rejected_loads(&mut injector.client) - before,
            outcomes.refused
        );
    };
    inject(&server, 1);
    leaks_nothing(&mut server, |server| inject(server, 0xf4a3e));
}

/// Kilobytes from a line of `/proc/PID/status`.
fn status(server: &Server, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", server.pid()))
        .expect("the server's status can be read");
    text.lines()
        .find_map(|line| {
            line.strip_prefix(name)?
                .strip_prefix(':')?
                .split_whitespace()
                .next()
        })
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("no {name} in:\n{text}"))
}

/// The server's peak memory in bytes: its own figure, and the kernel's resident and virtual sizes.
fn peaks(server: &Server, client: &mut Client) -> [(&'static str, u64); 3] {
    [
        (
            "used_memory_peak",
            client.info_number("memory", "used_memory_peak"),
        ),
        ("VmHWM", status(server, "VmHWM") << 10),
        ("VmPeak", status(server, "VmPeak") << 10),
    ]
}

#[test]
fn huge_claimed_cardinalities_allocate_nothing() {
    // Allowance for 700 small requests and replies, including valgrind's own memory.
    let bound = ((4 << 20) as f64 * env::slow()) as u64;
    let server = quiet_server();
    let mut injector = Injector::new(server.client());
    // Warm-up: the largest genuine value, and what the server allocates once.
    injector.inject(Kind::Set, LoadPath::Restore, forged_bodies::valid_sets());
    injector.inject(
        Kind::Counters,
        LoadPath::Restore,
        forged_bodies::invalid_counters(),
    );
    let before = peaks(&server, &mut injector.client);
    for _ in 0..5 {
        injector.inject(Kind::Set, LoadPath::Restore, forged_bodies::invalid_sets());
        injector.inject(Kind::Set, LoadPath::Import, invalid_imports());
    }
    let after = peaks(&server, &mut injector.client);
    for ((name, before), (_, after)) in before.into_iter().zip(after) {
        assert!(
            after - before <= bound,
            "{name}: {before} before, {after} after"
        );
    }
    // Checks the measurement: a large value shows up. (Not in the virtual size, which may have slack.)
    let zeros = vec![0; 64 << 20];
    injector.client.call(&args!["SET", "big", zeros]);
    wait_until("a large value shows", || {
        let now = peaks(&server, &mut injector.client);
        let mut grown = now.iter().zip(&after).take(2);
        grown.all(|((_, now), (_, then))| now - then > 32 << 20)
    });
}
