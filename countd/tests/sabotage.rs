//! A saboteur damages counters while clients act and processes are killed. Reconciliation and rebuilds restore all invariants, and the
//! audit has every correction.

use crate::support::invariants::Invariants;
use crate::support::saboteur::{Act, Change, Place, act, any_key, any_row, audited};
use crate::support::stores::{TestStore, cluster, module, objects, plain};
use crate::support::workload::Random;
use crate::support::{
    Api, Countd, Settings, pause, printed, run, set_schema, wait_until_all_drained,
};
use countint_tests::{Client, Cluster, Server, reply, wait_until};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

const PARTITIONS: u16 = 16;
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
enum Target {
    /// Counters of notes: any act.
    Notes,
    /// Followers and received counters: values.
    Received,
    /// Followings and posts: values. All counters of users: lost rows, objects and tables.
    Users,
    /// The facts of users: lost ones, and ones without a fact.
    FactsOfUsers,
    /// Counts by day and totals.
    Days,
}

/// What reconciliation corrects.
const CORRECTED: [Target; 4] = [
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

fn config(facts: &str, reconcile: &str) -> String {
    format!(
        r#"
[log]
partitions = {PARTITIONS}
[consumer]
linger_ms = 5
batch = 50
session_timeout_ms = 500
[limits]
user = {{ per_second = 0 }}
[facts]
shards = 3
days = 1
compaction_interval_seconds = 1
[reconcile]
{reconcile}
[metrics.read]
nature = "repeatable"
count = "batched"
daily = true
[metrics.like]
nature = "once"
count = "now"
facts = "{facts}"
reverse = true
users = [{{ counter = "likesReceived", of = "author" }}]
[metrics.fav]
nature = "once"
count = "batched"
facts = "{facts}"
users = [{{ counter = "favsReceived", of = "author" }}]
[metrics.follow]
nature = "once"
count = "never"
facts = "{facts}"
reverse = true
entities = ["user"]
users = [{{ counter = "followings", of = "actor" }}, {{ counter = "followers", of = "target" }}]
[metrics.publish]
nature = "once"
count = "never"
facts = "{facts}"
reverse = true
users = [{{ counter = "posts", of = "actor" }}]
"#
    )
}

/// A round each second, which compares everything and corrects every difference.
const ROUND: &str = "interval_seconds = 1\nsample = 1\nmin_difference = 0\nmin_percent = 0";

/// Random actions of users 1 to 30 on 40 notes, ten of which have other IDs than numbers. Their results are not needed.
fn run_client(api: &Api, seed: u64, has_reads: bool, stop: &AtomicBool) {
    let mut random = Random(seed);
    while !stop.load(Relaxed) {
        let lines: Vec<String> = (0..1 + random.below(20))
            .map(|_| action(&mut random, has_reads))
            .collect();
        // A killed process does not answer.
        if api.try_post("/actions", &lines.join("\n")).is_err() {
            pause();
        }
    }
}

fn action(random: &mut Random, has_reads: bool) -> String {
    let (note, uid) = (random.below(40), 1 + random.below(30));
    let eid = match note {
        30.. => format!("n-{note}"),
        _ => note.to_string(),
    };
    let op = if random.below(5) < 3 { "add" } else { "remove" };
    let author = 1 + note % 7;
    let metric = match random.below(8) {
        7 if has_reads => "read",
        6 | 7 => "follow",
        5 => "publish",
        3 | 4 => "fav",
        _ => "like",
    };
    let action = match metric {
        "follow" => {
            let target = (1 + random.below(30)).to_string();
            json!({ "metric": metric, "etype": "user", "eid": target, "uid": uid, "op": op })
        }
        "read" => json!({ "metric": metric, "etype": "note", "eid": eid, "uid": uid }),
        "publish" => json!({ "metric": metric, "etype": "note", "eid": eid, "uid": uid, "op": op }),
        _ => {
            json!({ "metric": metric, "etype": "note", "eid": eid, "uid": uid, "op": op, "author": author })
        }
    };
    action.to_string()
}

/// The saboteur, and what it has changed.
struct Saboteur {
    random: Random,
    /// Acts that only change values or remove rows, so that commits go on.
    is_gentle: bool,
    changes: Vec<(Change, &'static str)>,
    /// Counters that were lower than the removals that followed: these stop at 0, and what they did not subtract is in no sum.
    lowered: BTreeSet<(String, String, String)>,
}

impl Saboteur {
    fn new(is_gentle: bool) -> Saboteur {
        Saboteur {
            random: Random(17),
            is_gentle,
            changes: Vec::new(),
            lowered: BTreeSet::new(),
        }
    }

    /// The patterns of the keys of a target, and the acts with indexes of counters.
    fn act_on(&mut self, client: &mut Client, target: Target) {
        let (patterns, counters): (&[&str], _) = match target {
            Target::Notes => (&["tab:v1:note:*", "cnt:v1:note:*"], [LIKE, FAV, LIKE]),
            Target::Received => (&["utab:*", "ucnt:*"], [1, 3, 4]),
            Target::Users => (&["utab:*", "ucnt:*"], [0, 2, 0]),
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
            Target::Users | Target::Received => USERS,
            _ => NOTES,
        };
        for change in act(client, damage, &at) {
            let name = names.get(change.idx).copied().unwrap_or_default();
            if change.difference < 0 && name != "like" {
                let of = (change.key.clone(), change.row.clone(), name.to_owned());
                self.lowered.insert(of);
            }
            self.changes.push((change, name));
        }
    }

    /// Asserts that the corrections of each counter take back what was done to it.
    fn assert_audited(&self, servers: &[Server]) {
        let mut sums: BTreeMap<(String, String, String), [i64; 2]> = BTreeMap::new();
        for (change, name) in &self.changes {
            let of = (change.key.clone(), change.row.clone(), (*name).to_owned());
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

/// The number of the last round.
fn round(servers: &[Server]) -> u64 {
    let rounds = servers.iter().filter_map(|server| {
        let round = server.client().run("HGET countd:reconcile round");
        round.trim_matches('"').parse().ok()
    });
    rounds.max().unwrap_or(0)
}

fn wait_until_up(servers: &[Server]) {
    wait_until("all slots are served", || {
        servers.iter().all(|server| {
            let mut client = server.client();
            client.info("cluster")["cluster_enabled"] == "0"
                || reply::text(client.ok("CLUSTER INFO")).contains("cluster_state:ok")
        })
    });
}

/// Runs clients and the saboteur, with kills of the processes and servers.
fn sabotage(servers: &mut [Server], config: &str, saboteur: &mut Saboteur, targets: &[Target]) {
    set_schema(&servers[0], config);
    let settings = |command| Settings { command, config };
    let mut processes =
        ["serve", "consume", "all"].map(|command| Countd::with(&servers[0], &settings(command)));
    let apis = [processes[0].api(), processes[2].api()];
    let stop = AtomicBool::new(false);
    // A lost count of a repeatable metric has no source but its days.
    let has_reads = targets == [Target::Days];
    thread::scope(|scope| {
        for (number, api) in (1..).zip(&apis) {
            let stop = &stop;
            scope.spawn(move || run_client(api, number, has_reads, stop));
        }
        let all = processes.len() + servers.len();
        let mut kills = (0..all as u64 * KILLS).map(|kill| kill as usize % all);
        for number in 1..=ACTS {
            thread::sleep(std::time::Duration::from_millis(
                50 + saboteur.random.below(150),
            ));
            let node = saboteur.random.below(servers.len() as u64) as usize;
            let target = targets[saboteur.random.below(targets.len() as u64) as usize];
            saboteur.act_on(&mut servers[node].client(), target);
            if number % (ACTS / (all as u64 * KILLS)) == 0 {
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
        stop.store(true, Relaxed);
    });
    wait_until_all_drained(servers.iter(), PARTITIONS);
    let first = round(servers);
    let invariants = Invariants::new(servers.iter(), config);
    let corrects = config.contains(ROUND);
    let mut found = invariants.violations();
    while corrects && !found.is_empty() && round(servers) < first + ROUNDS {
        // A batch that meets a damaged key makes its events dead letters. They change the facts of users when they are retried.
        printed(&run(&servers[0], config, &["dead", "retry", "--all"]));
        pause();
        found = invariants.violations();
    }
    let rounds = round(servers) - first;
    let (changes, left) = (saboteur.changes.len(), found.len());
    eprintln!("{changes} changes; {left} violations after {rounds} rounds");
    assert!(saboteur.changes.len() as u64 > ACTS / 4);
    if corrects {
        assert!(found.is_empty(), "after {rounds} rounds: {found:#?}");
    } else {
        assert!(!found.is_empty(), "nothing has corrected the damage");
    }
}

fn assert_corrected(servers: &mut [Server], facts: &str) {
    let mut saboteur = Saboteur::new(false);
    sabotage(servers, &config(facts, ROUND), &mut saboteur, &CORRECTED);
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
    let config = config("rbm", "enabled = false");
    sabotage(servers, &config, &mut Saboteur::new(true), &CORRECTED);
}

/// A lost count of a repeatable metric has no source but its days, so nothing else is damaged.
#[test]
fn sabotaged_days_are_corrected() {
    for mut store in [module(), plain()] {
        let servers = std::slice::from_mut(&mut store.server);
        let (config, mut saboteur) = (config("rbm", ROUND), Saboteur::new(false));
        sabotage(servers, &config, &mut saboteur, &[Target::Days]);
    }
}
