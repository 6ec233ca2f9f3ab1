//! A saboteur damages counters while clients act and processes are killed. Reconciliation and rebuilds restore all invariants, and the
//! audit has every correction.

pub mod clients;
mod days;

use crate::support::invariants::Invariants;
use crate::support::kafka::Log;
use crate::support::saboteur::{
    Act, Change, Place, act, any_key, any_row, audited, number_of_days,
};
use crate::support::stores::{
    TestStore, cluster, for_each_store, module, objects, plain, wait_until_up,
};
use crate::support::workload::{Random, StopOnDrop};
use crate::support::{Countd, Settings, pause, printed, run, set_schema, wait_until_days_are_kept};
use clients::{Clients, PARTITIONS, ROUND, config, run_client};
use countint_tests::{Client, Cluster, Server, reply};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::thread;

/// The counters of notes and of users, by index.
const NOTES: [&str; 5] = ["read", "like", "fav", "comment", "repost"];
const USERS: [&str; 5] = [
    "followings",
    "followers",
    "posts",
    "likesReceived",
    "favsReceived",
];
/// The counters of notes that the clients change. Both count facts: `like` with the action, `fav` by the consumer.
const LIKE: usize = 1;
const FAV: usize = 2;

/// What the saboteur damages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Counters of notes: any act.
    Notes,
    /// Followers and received counters: values.
    Received,
    /// Followings and posts: values. All counters of users: lost rows, objects and tables.
    Users,
    /// All counters of users: keys of another type, and short ones. Events of these users become dead letters.
    KeysOfUsers,
    /// The facts of users: lost ones, and ones without a fact.
    FactsOfUsers,
    /// Counts by day and totals.
    Days,
}

/// What reconciliation corrects.
pub const CORRECTED: [Target; 4] = [
    Target::Notes,
    Target::Received,
    Target::Users,
    Target::FactsOfUsers,
];

/// The number of acts, and of kills of each process and each server.
const ACTS: u64 = 60;
const KILLS: u64 = 2;
/// The number of rounds after which all must be right. A sweep over received counters takes several rounds.
const ROUNDS: u64 = 60;
/// The number of sweeps over the facts of users after which all must be right: one that runs, one that corrects them, and one after which their
/// counters are corrected. On a busy machine these take longer than the rounds.
const SWEEPS: u64 = 3;
/// The number of times that dead letters are retried.
const RETRIES: usize = 20;

/// The saboteur, and what it has changed.
pub struct Saboteur {
    random: Random,
    /// Acts that only change values or remove rows, so that commits go on.
    is_gentle: bool,
    /// The number of acts.
    pub acts: u64,
    clients: Clients,
    changes: Vec<(Change, &'static str)>,
    /// Counters that were lower than the removals that followed: these stop at 0, and what they did not subtract is in no sum.
    lowered: BTreeSet<(String, String, String)>,
}

impl Saboteur {
    pub fn new(clients: Clients) -> Saboteur {
        Saboteur {
            random: Random(17),
            is_gentle: false,
            acts: ACTS,
            clients,
            changes: Vec::new(),
            lowered: BTreeSet::new(),
        }
    }

    /// The patterns of the keys of a target, and the acts with indexes of counters.
    fn act_on(&mut self, client: &mut Client, target: Target) {
        let (patterns, counters): (&[&str], _) = match target {
            Target::Notes => (&["tab:v1:note:*", "cnt:v1:note:*"], [LIKE, FAV, LIKE]),
            Target::Received => (&["utab:*", "ucnt:*"], [1, 3, 4]),
            Target::Users | Target::KeysOfUsers => (&["utab:*", "ucnt:*"], [0, 2, 0]),
            Target::FactsOfUsers => (&["rtl:*", "rev:*"], [0, 0, 0]),
            Target::Days => (&["h:agg:*", "tot*:*"], [0, 0, 0]),
        };
        let pattern = patterns[self.random.below(patterns.len() as u64) as usize];
        let Some(key) = any_key(client, &mut self.random, pattern) else {
            return;
        };
        let damage = match (target, self.is_gentle) {
            (Target::Received, _) => Act::Set,
            (_, true) => [Act::Set, Act::Set, Act::Remove][self.random.below(3) as usize],
            (Target::KeysOfUsers, false) => {
                [Act::Replace, Act::Truncate][self.random.below(2) as usize]
            }
            (Target::Days, false) => {
                [Act::Set, Act::Remove, Act::Delete, Act::Replace][self.random.below(4) as usize]
            }
            (Target::Notes, false) => {
                let all = [
                    Act::Set,
                    Act::Set,
                    Act::Remove,
                    Act::Delete,
                    Act::Replace,
                    Act::Truncate,
                ];
                all[self.random.below(6) as usize]
            }
            (_, false) => [Act::Set, Act::Remove, Act::Delete][self.random.below(3) as usize],
        };
        let row = any_row(client, &mut self.random, &key);
        // The key was deleted or replaced meanwhile. Once it is repaired, a row without a name would be added, which no entity has.
        if row.is_empty() && !key.starts_with("cnt:") && !key.starts_with("ucnt:") {
            return;
        }
        let at = Place {
            idx: counters[self.random.below(3) as usize],
            value: match self.random.below(3) {
                0 => 0,
                _ => 1_000 + self.random.below(4_000),
            },
            keep: 1,
            key,
            row,
        };
        let names = match target {
            Target::Users | Target::KeysOfUsers | Target::Received => USERS,
            _ => NOTES,
        };
        for change in act(client, damage, &at) {
            let name = names.get(change.idx).copied().unwrap_or_default();
            let saturates = self.clients != Clients::Add && name != "like";
            if change.difference < 0 && saturates {
                let of = (change.key.clone(), change.row.clone(), name.to_owned());
                self.lowered.insert(of);
            }
            self.changes.push((change, name));
        }
    }

    /// Asserts that the corrections of each counter take back what was done to it.
    pub fn assert_audited(&self, servers: &[Server]) {
        let mut sums: BTreeMap<(String, String, String), [i64; 2]> = BTreeMap::new();
        for (change, name) in &self.changes {
            let of = number_of_days(&change.key, &change.row);
            let of =
                of.unwrap_or_else(|| (change.key.clone(), change.row.clone(), (*name).to_owned()));
            sums.entry(of).or_default()[0] += change.difference;
        }
        for (of, difference) in audited(servers) {
            sums.entry(of).or_default()[1] += difference;
        }
        // The facts of users are no counters: they are there or not.
        let is_counter = |key: &str| !key.starts_with("rtl:") && !key.starts_with("rev:");
        sums.retain(|of, [done, corrected]| {
            !self.lowered.contains(of) && is_counter(&of.0) && *done + *corrected != 0
        });
        assert!(sums.is_empty(), "sabotage and corrections: {sums:#?}");
    }
}

/// The number of the last round, and of the last sweep over the facts of users that has ended.
fn progress(servers: &[Server]) -> (u64, u64) {
    let highest = |hget: &str| {
        let numbers = servers.iter().filter_map(|server| {
            let number = server.client().run(hget);
            number.trim_matches('"').parse().ok()
        });
        numbers.max().unwrap_or(0)
    };
    let round = highest("HGET countd:reconcile round");
    (round, highest("HGET countd:transposition ended"))
}

/// The number of dead letters.
fn dead_letters(servers: &[Server]) -> i64 {
    let of_server = |server: &Server| {
        let mut client = server.client();
        let streams = reply::array(client.ok("KEYS x:cnt-update*:dead"));
        let lengths = streams.into_iter().map(reply::text);
        let lengths = lengths.map(|stream| reply::int(client.call(&["XLEN", &stream])));
        lengths.sum::<i64>()
    };
    servers.iter().map(of_server).sum()
}

/// Retries dead letters until none is left. A batch that meets a damaged key makes its events dead letters, and the consumer repairs the key. Retried
/// events change the facts of users, so differences of their counters are not the same until all were retried.
fn retry_dead_letters(servers: &[Server], log: &Log) {
    for _ in 0..RETRIES {
        log.drain_all(servers, PARTITIONS);
        let count = dead_letters(servers);
        if count == 0 {
            return;
        }
        eprintln!("{count} dead letters");
        printed(&run(&servers[0], &log.config, &["dead", "retry", "--all"]));
    }
    log.drain_all(servers, PARTITIONS);
    let count = dead_letters(servers);
    assert_eq!(count, 0, "dead letters after {RETRIES} retries");
}

/// Runs clients and the saboteur, with kills of the processes and servers.
pub fn sabotage(servers: &mut [Server], log: &Log, saboteur: &mut Saboteur, targets: &[Target]) {
    let config = log.config.as_str();
    set_schema(&servers[0], config);
    let settings = |command| Settings { command, config };
    let mut processes =
        ["serve", "consume", "all"].map(|command| Countd::with(&servers[0], &settings(command)));
    wait_until_days_are_kept(servers, config.matches("daily = true").count());
    let apis = [processes[0].api(), processes[2].api()];
    let stop = AtomicBool::new(false);
    let (acts, clients) = (saboteur.acts, saboteur.clients);
    thread::scope(|scope| {
        let stopping = StopOnDrop(&stop);
        for (number, api) in (1..).zip(&apis) {
            let stop = &stop;
            scope.spawn(move || run_client(api, number, clients, stop));
        }
        let all = processes.len() + servers.len();
        let mut kills = (0..all as u64 * KILLS).map(|kill| kill as usize % all);
        for number in 1..=acts {
            thread::sleep(std::time::Duration::from_millis(
                50 + saboteur.random.below(150),
            ));
            let node = saboteur.random.below(servers.len() as u64) as usize;
            let target = targets[saboteur.random.below(targets.len() as u64) as usize];
            saboteur.act_on(&mut servers[node].client(), target);
            if number % (acts / (all as u64 * KILLS)).max(1) == 0 {
                match kills.next() {
                    Some(process @ 0..=2) => {
                        processes[process].kill();
                        processes[process].launch();
                    }
                    Some(server) => {
                        servers[server - 3].kill();
                        servers[server - 3].start_again();
                        wait_until_up(servers);
                    }
                    None => {}
                }
            }
        }
        drop(stopping);
    });
    retry_dead_letters(servers, log);
    let (first, first_sweep) = progress(servers);
    let invariants = Invariants::new(servers.iter(), config);
    let corrects = config.contains(ROUND);
    let mut found = invariants.violations();
    let has_time = || {
        let (round, sweep) = progress(servers);
        round < first + ROUNDS || sweep < first_sweep + SWEEPS
    };
    while corrects && !found.is_empty() && has_time() {
        pause();
        found = invariants.violations();
    }
    let rounds = progress(servers).0 - first;
    let (changes, left) = (saboteur.changes.len(), found.len());
    eprintln!("{changes} changes; {left} violations after {rounds} rounds");
    assert!(saboteur.changes.len() as u64 > acts / 4);
    if corrects {
        assert!(found.is_empty(), "after {rounds} rounds: {found:#?}");
    } else {
        assert!(!found.is_empty(), "nothing has corrected the damage");
    }
}

fn assert_corrected(servers: &mut [Server], facts: &str) {
    let mut saboteur = Saboteur::new(Clients::Change);
    let log = Log::streams(&config(facts, ROUND));
    sabotage(servers, &log, &mut saboteur, &CORRECTED);
    saboteur.assert_audited(servers);
}

fn assert_store_corrected(mut store: TestStore, facts: &str) {
    assert_corrected(std::slice::from_mut(&mut store.server), facts);
}

#[test]
fn sabotage_is_corrected_in_tables() {
    assert_store_corrected(module(), "rbm");
}

#[test]
fn sabotage_is_corrected_in_objects() {
    assert_store_corrected(objects(), "rbm");
}

#[test]
fn sabotage_is_corrected_without_the_module() {
    assert_store_corrected(plain(), "rbm");
}

#[test]
fn sabotage_is_corrected_with_bitmaps() {
    assert_store_corrected(module(), "bitmap");
}

#[test]
fn sabotage_is_corrected_with_sets_of_days() {
    assert_store_corrected(module(), "daily");
}

#[test]
fn sabotage_is_corrected_with_sharded_sets() {
    assert_store_corrected(module(), "sharded");
}

#[test]
fn sabotage_is_corrected_in_cluster_mode() {
    assert_store_corrected(cluster(), "rbm");
}

#[test]
fn sabotage_is_corrected_on_three_nodes() {
    let mut cluster = Cluster::with(|builder| builder.append_only(true));
    assert_corrected(&mut cluster.nodes, "rbm");
}

/// The same without rounds: the checker finds what is left.
#[test]
fn sabotage_without_reconciliation_is_found() {
    let mut store = module();
    let servers = std::slice::from_mut(&mut store.server);
    let log = Log::streams(&config("rbm", "enabled = false"));
    let mut saboteur = Saboteur::new(Clients::Change);
    saboteur.is_gentle = true;
    sabotage(servers, &log, &mut saboteur, &CORRECTED);
}

for_each_store! {
    [module plain cluster]
    damaged_counters_of_users_are_corrected
    sabotaged_days_are_corrected
}

/// Events that meet damaged counters of users become dead letters, and are not in the sums of the audit.
fn damaged_counters_of_users_are_corrected(mut store: TestStore) {
    let servers = std::slice::from_mut(&mut store.server);
    let mut saboteur = Saboteur::new(Clients::Change);
    let log = Log::streams(&config("rbm", ROUND));
    sabotage(servers, &log, &mut saboteur, &[Target::KeysOfUsers]);
}

/// A lost count of a repeatable metric has no source but its days, so nothing else is damaged.
fn sabotaged_days_are_corrected(mut store: TestStore) {
    let servers = std::slice::from_mut(&mut store.server);
    let mut saboteur = Saboteur::new(Clients::Read);
    let log = Log::streams(&config("rbm", ROUND));
    sabotage(servers, &log, &mut saboteur, &[Target::Days]);
}

/// Nothing saturates, so nothing is left out of the sums.
#[test]
fn the_audit_has_exactly_what_was_damaged() {
    let mut store = module();
    let mut saboteur = Saboteur::new(Clients::Add);
    let servers = std::slice::from_mut(&mut store.server);
    let log = Log::streams(&config("rbm", ROUND));
    sabotage(servers, &log, &mut saboteur, &CORRECTED);
    assert!(saboteur.lowered.is_empty());
    saboteur.assert_audited(servers);
}
