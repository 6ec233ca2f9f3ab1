//! Jobs end exactly although processes and Redis are killed.

use super::{CONFIG, Setup, config_with, entities, search::holders, users};
use crate::support::invariants::assert_invariants;
use crate::support::kafka::Log;
use crate::support::stores::{TestStore, cluster, module, plain};
use crate::support::workload::Random;
use crate::support::{Api, Countd, Settings};
use countint_tests::wait_until;
use serde_json::{Value as Json, json};
use std::thread;
use std::time::Duration;

#[test]
fn erasures_are_exact_when_processes_are_killed() {
    erase_under_kills(module(), Log::streams(CONFIG), (1, ROUNDS));
}

#[test]
fn erasures_are_exact_when_processes_are_killed_in_cluster_mode() {
    erase_under_kills(cluster(), Log::streams(CONFIG), (2, ROUNDS));
}

#[test]
fn erasures_are_exact_when_processes_are_killed_without_the_module() {
    let log = Log::streams(&config_with("daily"));
    erase_under_kills(plain(), log, (3, ROUNDS));
}

/// The number of times that both are erased.
const ROUNDS: u64 = 3;
/// The number of kills in a round.
const KILLS: u64 = 6;

/// Asserts that a user and an entity are erased this number of times, with a seed, while processes and Redis are killed.
pub fn erase_under_kills(store: TestStore, log: Log, (seed, rounds): (u64, u64)) {
    let config = log.config.clone();
    let config = config.as_str();
    let mut setup = Setup::on(store, log);
    users::others(&setup);
    entities::act(&setup, "1");
    let before = [users::state(&setup), entities::state(&setup, "1")];
    let settings = Settings {
        command: "consume",
        config,
    };
    let mut consumer = Countd::with(&setup.store.server, &settings);
    let mut random = Random(seed);
    for _ in 0..rounds {
        entities::act(&setup, entities::ERASED);
        users::act(&setup, users::ERASED);
        let jobs = [
            setup.delete(&format!("/user/{}", users::ERASED)),
            setup.delete(&format!("/entity/note/{}", entities::ERASED)),
        ];
        for _ in 0..KILLS {
            thread::sleep(Duration::from_millis(random.below(250)));
            match random.below(5) {
                0 => setup.store.restart(),
                1 | 2 => {
                    setup.countd.kill();
                    setup.countd.launch();
                }
                _ => {
                    consumer.kill();
                    consumer.launch();
                }
            }
        }
        wait_until("the jobs end", || {
            jobs.iter().all(|job| is_done(&setup.api, job))
        });
        setup.drain();
        let mut client = setup.store.server.client();
        for erased in [users::ERASED, entities::ERASED] {
            let found = holders(&mut client, erased);
            assert!(found.is_empty(), "{found:#?}");
        }
        let after = [users::state(&setup), entities::state(&setup, "1")];
        assert_eq!(after[1], before[1]);
        assert_eq!(after[0][1], before[0][1], "users");
        assert_eq!(after[0][2], before[0][2], "the author");
        assert_eq!(setup.user(users::ERASED), json!([0, 0, 0, 0, 0]));
        assert_invariants(&setup.store.server, config);
    }
}

fn is_done(api: &Api, job: &str) -> bool {
    let text = api.try_get(job).map(|(_, text)| text).unwrap_or_default();
    serde_json::from_str::<Json>(&text).is_ok_and(|status| status["state"] == "done")
}
