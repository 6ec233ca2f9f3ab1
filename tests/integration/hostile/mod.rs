//! Forged values: RESTORE payloads with a valid checksum, IMPORT arguments and RDB files. The server replies with an
//! error or loads a valid value, does not crash and leaks nothing.

mod body;
mod file;
mod forged;
mod forged_bodies;
mod forged_portables;
mod forged_tables;
mod inject;
mod limits;
mod mutate;
pub mod portable;
pub mod random;
mod samples;
mod verify;
mod verify_tables;

use countint_tests::payload::Body;
use countint_tests::{Client, Server, env, wait_until};
use forged::{Expect, Forged, Kind, LoadPath};
use inject::{Injector, Outcomes};
use random::Random;
use samples::Sample;

/// The tolerated change of the server's memory (its own tables and statistics), in bytes. The smallest possible leak of
/// the module is 16 bytes for each of thousands of values.
const NOISE: u64 = 8 << 10;

/// A server whose memory depends on its data only.
fn quiet_server() -> Server {
    Server::builder()
        .config("slowlog-log-slower-than -1")
        .config("latency-tracking no")
        .start()
}

/// A sample of the cases in slow runs, such as under valgrind; otherwise all.
fn sample_if_slow<T>(all: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    all.step_by(env::slow().max(1.0) as usize)
}

/// Every kind of damage to a saved body.
fn damaged<'a>(sample: &'a Sample, random: &mut Random) -> impl Iterator<Item = Forged> + use<'a> {
    let body = &sample.body;
    let damage = mutate::flips(body, random)
        .chain(mutate::truncations(body, random))
        .chain(mutate::insertions(body, random))
        .chain(mutate::lengths(body));
    as_forged(sample, damage)
}

/// Every kind of damage to an argument of IMPORT.
fn damaged_export<'a>(
    sample: &'a Sample,
    random: &mut Random,
) -> impl Iterator<Item = Forged> + use<'a> {
    let bytes = match sample.sealed {
        true => &sample.export[..sample.export.len() - 4],
        false => &sample.export[..],
    };
    // The payload tests cover the same bytes, so a part of the longer cases is enough.
    let step = if bytes.len() <= 2000 { 1 } else { 5 };
    let damage = mutate::flips(bytes, random)
        .chain(mutate::truncations(bytes, random))
        .chain(mutate::insertions(bytes, random))
        .step_by(step);
    let values = as_forged(sample, damage);
    values.map(move |forged| match sample.sealed {
        // A new checksum, so that the damage reaches the contents.
        true => Forged {
            bytes: forged_tables::sealed(&forged.bytes),
            ..forged
        },
        false => forged,
    })
}

fn as_forged(
    sample: &Sample,
    damage: impl Iterator<Item = mutate::Damaged>,
) -> impl Iterator<Item = Forged> {
    sample_if_slow(damage).map(|(what, bytes)| {
        let what = format!("{}: {what}", sample.name);
        Forged::new(what, bytes, Expect::Anything)
    })
}

fn random_bodies(kind: Kind, count: usize, random: &mut Random) -> impl Iterator<Item = Forged> {
    let mut head = Body::module(kind.name(), 1).end();
    head.pop();
    sample_if_slow((0..count).map(move |i| {
        Forged::new(
            format!("random body {i}"),
            mutate::random_body(&head, random),
            Expect::Anything,
        )
    }))
}

/// Loads all forged values of one type through RESTORE and IMPORT.
fn inject_all(
    injector: &mut Injector,
    kind: Kind,
    samples: &[Sample],
    random: &mut Random,
) -> [Outcomes; 2] {
    let (mut restored, mut imported) = (Outcomes::default(), Outcomes::default());
    for sample in samples {
        restored += injector.inject(kind, LoadPath::Restore, damaged(sample, random));
        imported += injector.inject(kind, LoadPath::Import, damaged_export(sample, random));
    }
    restored += injector.inject(kind, LoadPath::Restore, random_bodies(kind, 10_000, random));
    [restored, imported]
}

/// The totals of existing data in `INFO countint`.
fn totals(client: &mut Client) -> Vec<u64> {
    [
        "cint_objects",
        "cint_fields",
        "cint_bytes",
        "ctab_objects",
        "ctab_rows",
        "ctab_bytes",
        "rbm_objects",
        "rbm_members",
        "rbm_bytes",
    ]
    .map(|name| client.info_number("countint", &format!("countint_{name}")))
    .to_vec()
}

fn rejected_loads(client: &mut Client) -> u64 {
    client.info_number("countint", "countint_rejected_loads")
}

/// Runs `work`, after which the server must have the same pid and the same memory use.
fn leaks_nothing(server: &mut Server, work: impl FnOnce(&Server)) {
    let run_id = server.client().info("server")["run_id"].clone();
    let before = server.client().used_memory_when_idle();
    work(server);
    server.assert_alive();
    let mut client = server.client();
    assert_eq!(
        client.info("server")["run_id"],
        run_id,
        "it is another server"
    );
    // Valkey frees deleted values on another thread.
    wait_until("INFO countint knows of nothing any more", || {
        let totals = totals(&mut client);
        println!("{totals:?}");
        totals == [0; 9]
    });
    // Hash tables shrink and buffers of closed connections are freed with a delay, also those from before `work`.
    let mut after = 0;
    wait_until("the server's memory is no more than before", || {
        after = client.used_memory_when_idle();
        println!("used_memory: {before} before, {after} after");
        after <= before + NOISE
    });
}

fn survives(kind: Kind, seed: u64) {
    let mut server = quiet_server();
    let mut random = Random::new(seed);
    let samples = samples::samples(&mut server.client(), kind, &mut random);
    // Warm-up: what the server allocates once and keeps.
    let first = &samples[1..2];
    inject_all(
        &mut Injector::new(server.client()),
        kind,
        first,
        &mut random,
    );
    leaks_nothing(&mut server, |server| {
        let rejected = rejected_loads(&mut server.client());
        let mut injector = Injector::new(server.client());
        let [restored, imported] = inject_all(&mut injector, kind, &samples, &mut random);
        println!("{kind:?}: RESTORE {restored:?}, IMPORT {imported:?}");
        let rejected = rejected_loads(&mut injector.client) - rejected;
        // The server itself refuses invalid framing.
        assert!(
            (1..=restored.refused).contains(&rejected),
            "{rejected} rejected loads"
        );
        assert!(restored.loaded > 0 && imported.loaded > 0);
        if env::slow() == 1.0 {
            assert!(restored.sent >= 20_000, "only {} payloads", restored.sent);
        }
    });
}

#[test]
fn damaged_counter_payloads_are_refused_or_valid() {
    survives(Kind::Counters, 0xc0de_0417);
}

#[test]
fn damaged_set_payloads_are_refused_or_valid() {
    survives(Kind::Set, 0x5e70_0417);
}

#[test]
fn damaged_table_payloads_are_refused_or_valid() {
    survives(Kind::Table, 0x7ab1_0417);
}
