//! Damaged counters, days and facts are corrected while events are counted from streams and from the topic.

use super::TOPIC_PARTITIONS;
use crate::sabotage::clients::{Clients, ROUND, config};
use crate::sabotage::{CORRECTED, Saboteur, Target, sabotage};
use crate::support::kafka::{Log, Mock};
use crate::support::stores::{TestStore, cluster, module};

/// The number of acts.
const ACTS: u64 = 25;

/// Lets a saboteur act on some targets. The reads of the clients are records of the topic.
fn act(store: &mut TestStore, clients: Clients, targets: &[Target]) -> Saboteur {
    let mut saboteur = Saboteur::new(clients);
    saboteur.acts = ACTS;
    let mock = Mock::start(TOPIC_PARTITIONS);
    let log = Log::topic_of(&mock, &config("rbm", ROUND));
    let servers = std::slice::from_mut(&mut store.server);
    sabotage(servers, &log, &mut saboteur, targets);
    saboteur
}

#[test]
fn sabotage_is_corrected() {
    let mut store = module();
    let saboteur = act(&mut store, Clients::Change, &CORRECTED);
    saboteur.assert_audited(std::slice::from_ref(&store.server));
}

#[test]
fn sabotaged_days_are_corrected_in_cluster_mode() {
    act(&mut cluster(), Clients::Read, &[Target::Days]);
}
