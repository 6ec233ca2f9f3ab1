//! The facts and the counters of each place of a split entity, and of the base after the merge, compared with a model of all likes.

use super::{AUTHOR, CONFIG, merge, split};
use crate::support::invariants::assert_invariants;
use crate::support::stores::{TestStore, for_each_store};
use crate::support::workload::Random;
use crate::support::{Api, Countd, on_note, wait_until_drained};
use countint_tests::{Client, reply, wait_until};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

for_each_store! {
    [module cluster]
    merged_facts_and_counters_match_the_model
}

/// The number of users who act.
const USERS: u64 = 60;
/// The number of actions on each metric before the split, and while the entity is split.
const ACTIONS: u64 = 150;
/// The metrics that are split, their indexes in the schema, and the counters of authors that they feed.
const METRICS: [(&str, u16, &str); 2] = [("like", 1, "likesReceived"), ("fav", 2, "favsReceived")];

/// What the users of a metric have done.
#[derive(Default)]
struct Model {
    /// The users who have the fact.
    facts: BTreeSet<u64>,
    /// Those whose home is the base: who had the fact when it was frozen.
    home: BTreeSet<u64>,
    /// Those of them who have taken it back since then.
    former: BTreeSet<u64>,
}

impl Model {
    /// Sends random actions. Each answer must say whether the fact changed, and the count.
    fn act(&mut self, api: &Api, metric: &str, random: &mut Random) {
        for _ in 0..ACTIONS {
            let (uid, adds) = (random.below(USERS) + 1, random.below(2) == 0);
            let changed = match adds {
                true => self.facts.insert(uid),
                false => self.facts.remove(&uid),
            };
            if changed && !adds && self.home.contains(&uid) {
                self.former.insert(uid);
            }
            let prefix = if adds { "" } else { "un" };
            let outcome = api.act(&format!("{prefix}{metric}"), on_note(7, uid));
            assert_eq!(outcome["changed"], changed, "{metric} {uid} {adds}");
        }
    }

    fn freeze(&mut self) {
        self.home.clone_from(&self.facts);
        self.former.clear();
    }

    /// The users of the base who have the fact.
    fn at_base(&self) -> BTreeSet<u64> {
        self.facts.intersection(&self.home).copied().collect()
    }

    fn at_shards(&self) -> BTreeSet<u64> {
        self.facts.difference(&self.home).copied().collect()
    }
}

/// The sets of facts of a metric on note 7, by what follows the ID in their keys. Strings are fences.
fn sets(client: &mut Client, metric: &str) -> BTreeMap<String, BTreeSet<u64>> {
    let prefix = format!("rbm:{metric}:note:7");
    let keys = reply::array(client.ok(&format!("KEYS {prefix}*")));
    let keys: Vec<String> = keys.into_iter().map(reply::text).collect();
    let mut sets = BTreeMap::new();
    for key in keys {
        if client.run(&format!("TYPE {key}")) == "string" {
            continue;
        }
        let page = reply::array(client.ok(&format!("RBM.SCAN {key} 0 COUNT 1000")));
        let users = reply::array(page[1].clone()).into_iter();
        let users: BTreeSet<u64> = users
            .map(|user| reply::text(user).parse().expect("a number"))
            .collect();
        let card = reply::int(client.ok(&format!("RBM.CARD {key}")));
        assert_eq!(card, users.len() as i64, "{key}");
        let rest = key.strip_prefix(&prefix).expect("the prefix");
        let place = rest.split(':').next().unwrap_or_default();
        sets.insert(place.to_owned(), users);
    }
    sets
}

/// A counter of note 7 at the base.
fn base_counter(store: &TestStore, idx: u16) -> i64 {
    let table = store.counters("v1", "note:7", 16);
    let mut client = store.server.client();
    reply::int(client.ok(&format!("CTAB.GET {table} 7 {idx}")))
}

/// The counters of the shards of note 7 at an index, by what follows the ID in their keys.
fn shard_counters(store: &TestStore, idx: u16) -> BTreeMap<String, i64> {
    let mut client = store.server.client();
    let keys = reply::array(client.ok("KEYS cnt:v1:note:7~*"));
    let keys = keys.into_iter().map(reply::text);
    let counters = keys.map(|key| {
        let rest = key.strip_prefix("cnt:v1:note:7").expect("the prefix");
        let place = rest.split(':').next().unwrap_or_default().to_owned();
        let value = client.ok(&format!("CINT.GET {key} {idx}"));
        (place, reply::int(value))
    });
    counters.filter(|(_, value)| *value > 0).collect()
}

fn assert_split(store: &TestStore, idx: u16, metric: &str, model: &Model) {
    let mut sets = sets(&mut store.server.client(), metric);
    let generation = |place: &String| !place.contains('.') && !place.ends_with("former");
    let frozen: Vec<String> = sets.keys().filter(|key| generation(key)).cloned().collect();
    let [frozen] = &frozen[..] else {
        panic!("{metric}: one set of the base: {frozen:?}");
    };
    let former = sets.remove(&format!("{frozen}~former"));
    assert_eq!(former.unwrap_or_default(), model.former, "{metric}");
    assert_eq!(sets.remove(frozen), Some(model.at_base()), "{metric}");
    assert_eq!(base_counter(store, idx), model.at_base().len() as i64);
    // Each user at one shard, whose counter is the number of its facts.
    let cards = sets
        .iter()
        .map(|(place, users)| (place.clone(), users.len() as i64));
    let cards: BTreeMap<String, i64> = cards.filter(|(_, card)| *card > 0).collect();
    assert_eq!(cards.values().sum::<i64>(), model.at_shards().len() as i64);
    let users: BTreeSet<u64> = sets.into_values().flatten().collect();
    assert_eq!(users, model.at_shards(), "{metric}");
    assert_eq!(shard_counters(store, idx), cards, "{metric}");
}

fn assert_merged(store: &TestStore, idx: u16, metric: &str, model: &Model) {
    let sets = sets(&mut store.server.client(), metric);
    let whole = BTreeMap::from([(String::new(), model.facts.clone())]);
    assert_eq!(sets, whole, "{metric}");
    assert_eq!(base_counter(store, idx), model.facts.len() as i64);
    assert_eq!(shard_counters(store, idx), BTreeMap::new(), "{metric}");
}

fn merged_facts_and_counters_match_the_model(store: TestStore) {
    let server = &store.server;
    let countd = Countd::start(server, CONFIG);
    let api = countd.api();
    api.ok(api.put("/entity/note/7", &json!({ "author": AUTHOR })));
    let mut random = Random(4);
    let mut models = METRICS.map(|_| Model::default());
    // The second split has another generation.
    for _ in 0..2 {
        for ((metric, ..), model) in METRICS.iter().zip(&mut models) {
            model.act(&api, metric, &mut random);
            model.freeze();
        }
        assert_eq!(split(server, CONFIG)["metrics"], json!(["fav", "like"]));
        for ((metric, ..), model) in METRICS.iter().zip(&mut models) {
            model.act(&api, metric, &mut random);
            assert!(!model.former.is_empty() && !model.at_shards().is_empty());
        }
        wait_until_drained(server, 16);
        for ((metric, idx, _), model) in METRICS.iter().zip(&models) {
            assert_split(&store, *idx, metric, model);
        }
        assert_eq!(merge(server, CONFIG)["phase"], json!(null));
        wait_until_drained(server, 16);
        for ((metric, idx, received), model) in METRICS.iter().zip(&models) {
            assert_merged(&store, *idx, metric, model);
            assert_eq!(api.counts(7)[metric], model.facts.len());
            wait_until("the author is credited", || {
                api.user(AUTHOR)[received] == model.facts.len()
            });
        }
        assert_invariants(server, CONFIG);
    }
}
