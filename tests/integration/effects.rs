//! After each step of every scenario, the keys whose data changed are exactly the reported ones. A step that changes
//! nothing is not counted as a change, not replicated, publishes no event and invalidates no cache. A step that changes
//! something does all of that, and the replica then has equal data.

use crate::observer::{QUIET, events, invalidated, pushes};
use countint_tests::play::{Player, Route};
use countint_tests::scenario::Step;
use countint_tests::{Client, Scenario, Server, args, reply};
use std::collections::{BTreeMap, BTreeSet};

/// Every key with its type, expiry and digest.
type Keys = BTreeMap<Vec<u8>, String>;

struct Fixture {
    player: Player,
    stats: Client,
    replica: Client,
    cache: Client,
    subscriber: Client,
    readonly: BTreeSet<String>,
}

impl Fixture {
    fn new(master: &Server, replica: &Server) -> Fixture {
        let mut stats = master.client();
        let mut cache = master.client3();
        cache.ok("CLIENT TRACKING ON BCAST");
        let mut subscriber = master.client3();
        subscriber.ok("PSUBSCRIBE __key*__:*");
        Fixture {
            player: Player::new(master, Route::Direct, false),
            readonly: readonly_commands(&mut stats),
            stats,
            replica: replica.client(),
            cache,
            subscriber,
        }
    }

    /// The number of changes since the last save, and the replication offset.
    fn write_stats(&mut self) -> (u64, u64) {
        (
            self.stats
                .info_number("persistence", "rdb_changes_since_last_save"),
            self.stats.info_number("replication", "master_repl_offset"),
        )
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        let before = keys(&mut self.stats);
        pushes(&mut self.cache);
        pushes(&mut self.subscriber);
        let (dirty, offset) = self.write_stats();
        self.player.step(step)?;
        let (dirty_after, offset_after) = self.write_stats();
        let name = String::from_utf8_lossy(&step.args[0]).to_ascii_lowercase();
        if ["cint.", "ctab.", "rbm."]
            .iter()
            .any(|family| name.starts_with(family))
        {
            let after = keys(&mut self.stats);
            let reported = Reported {
                dirty: dirty_after - dirty,
                replicated: offset_after > offset,
                events: events(&pushes(&mut self.subscriber)),
                invalidated: invalidated(pushes(&mut self.cache)).into_iter().collect(),
            };
            reported.check(&name, &before, &after)?;
            if self.readonly.contains(&name) && after != before {
                return Err("a command with the flag readonly changed something".into());
            }
        }
        if offset_after > offset {
            self.check_replica()?;
        }
        Ok(())
    }

    fn check_replica(&mut self) -> Result<(), String> {
        // On the writer's connection, because WAIT waits for that client's writes.
        let acknowledged = reply::int(self.player.client.ok("WAIT 1 30000"));
        let (mine, its) = (self.stats.digest(), self.replica.digest());
        match (acknowledged, mine == its) {
            (1, true) => Ok(()),
            (1, false) => Err("the replica holds something else".into()),
            _ => Err("the replica does not follow".into()),
        }
    }
}

/// What the server reported about a command.
struct Reported {
    dirty: u64,
    replicated: bool,
    events: Vec<String>,
    invalidated: BTreeSet<String>,
}

impl Reported {
    fn check(&self, name: &str, before: &Keys, after: &Keys) -> Result<(), String> {
        let changed: BTreeSet<&Vec<u8>> = before
            .keys()
            .chain(after.keys())
            .filter(|key| before.get(*key) != after.get(*key))
            .collect();
        let (effects, events) = effects(name, before, after, &changed);
        let names = changed
            .iter()
            .map(|key| String::from_utf8_lossy(key).into_owned());
        let expected = (effects, !changed.is_empty(), &events, names.collect());
        let reported = (
            self.dirty,
            self.replicated,
            &self.events,
            self.invalidated.clone(),
        );
        if reported == expected {
            return Ok(());
        }
        Err(format!(
            "changes counted, replicated, events, keys to forget:\nexpected {expected:?}\n     got {reported:?}"
        ))
    }
}

/// The number of changes and the events expected of a command that changed these keys.
fn effects(
    name: &str,
    before: &Keys,
    after: &Keys,
    changed: &BTreeSet<&Vec<u8>>,
) -> (u64, Vec<String>) {
    let is = |key: &Vec<u8>, kind| {
        let text = after.get(key).or(before.get(key));
        text.is_some_and(|text| text.starts_with(kind))
    };
    // A mark changes the stream, then the set, then the counter.
    let marks = matches!(
        name,
        "rbm.mark" | "rbm.unmark" | "rbm.mmark" | "rbm.munmark"
    );
    let mut in_order: Vec<&Vec<u8>> = changed.iter().copied().collect();
    in_order.sort_by_key(|key| (!is(key, "stream"), !is(key, "RoaringBM")));
    let mut events = Vec::new();
    for key in in_order {
        let text = String::from_utf8_lossy(key);
        let gone = !after.contains_key(key);
        // An operation with an empty result deletes the key, as SINTERSTORE does.
        if marks && is(key, "stream") {
            events.push(format!("xadd {text}"));
        } else if !(gone && name == "rbm.op") {
            events.push(format!("{name} {text}"));
        }
        if gone {
            events.push(format!("del {text}"));
        }
    }
    let count = if marks {
        changed.len()
    } else {
        changed.len().min(1)
    };
    (count as u64, events)
}

fn keys(client: &mut Client) -> Keys {
    let mut keys = Keys::new();
    for key in reply::array(client.ok("KEYS *")) {
        let key = reply::bytes(key);
        let reads = [
            args!["TYPE", key].to_vec(),
            args!["PEXPIRETIME", key].to_vec(),
            args!["DEBUG", "DIGEST-VALUE", key].to_vec(),
        ];
        let text: Vec<String> = client.pipeline(&reads).iter().map(reply::format).collect();
        keys.insert(key, text.join(" "));
    }
    keys
}

fn readonly_commands(client: &mut Client) -> BTreeSet<String> {
    let names = reply::array(client.ok("COMMAND LIST FILTERBY MODULE countint"));
    let names = names.into_iter().map(reply::text);
    names
        .filter(|name| {
            let info = client.run(&format!("COMMAND INFO {name}"));
            info.contains(" readonly\n")
        })
        .collect()
}

#[test]
fn every_step_reports_exactly_the_keys_it_changed() {
    let quiet = || {
        let builder = Server::builder().config("notify-keyspace-events KEA");
        QUIET
            .iter()
            .fold(builder, |builder, line| builder.config(line))
    };
    let master = quiet().start();
    // Replicated commands must not depend on this setting.
    let replica = quiet()
        .module_args("default-len 9")
        .replica_of(&master)
        .start();
    let mut fixture = Fixture::new(&master, &replica);
    assert!(
        fixture.readonly.len() > 10,
        "COMMAND INFO returned: {:?}",
        fixture.readonly
    );
    let mut failed = Vec::new();
    for scenario in Scenario::all() {
        fixture.player.reset();
        for step in &scenario.steps {
            if let Err(why) = fixture.step(step) {
                failed.push(format!(
                    "{}:{} > {}\n{why}",
                    scenario.name, step.line, step.command
                ));
            }
        }
    }
    assert!(
        failed.is_empty(),
        "{} steps failed:\n\n{}",
        failed.len(),
        failed.join("\n\n")
    );
}
