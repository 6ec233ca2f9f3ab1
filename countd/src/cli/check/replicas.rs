//! The replicas of all primaries: whether there are as many as the configuration needs, and whether they follow.

use super::report::{Finding, Remedy, Report};
use super::servers::client;
use crate::cli::error::CommandError;
use countd::domain::config::{Ack, Config};
use countd::redis::address::Address;
use countd::redis::replica_links::{LinkProblem, PrimaryReplicas, inspect_replicas};
use countd::redis::store::Store;
use std::io::Write;

/// Notes primaries with fewer replicas than writes wait for, or none to read from, and replicas that do not follow.
pub(super) async fn check(
    config: &Config,
    store: &Store,
    report: &mut Report<impl Write>,
) -> Result<(), CommandError> {
    let configured = config.redis.replica_addresses().unwrap_or_default();
    let required = match config.redis.ack {
        Ack::Replicas(required) => usize::from(required),
        Ack::Memory | Ack::Fsync => 0,
    };
    for primary in inspect_replicas(store, &configured).await? {
        let needs = Needs {
            ack: (required, config.redis.ack.to_string()),
            is_read: store.reads_from_replicas(),
        };
        for finding in of_primary(&primary, &needs) {
            report.add_and_fail(&finding)?;
        }
    }
    Ok(())
}

/// What the configuration needs of replicas.
pub(super) struct Needs {
    /// The number for which writes wait, and the setting.
    pub ack: (usize, String),
    /// Whether replicas answer reads.
    pub is_read: bool,
}

/// What is wrong with the replicas of a primary.
pub(super) fn of_primary(primary: &PrimaryReplicas, needs: &Needs) -> Vec<Finding> {
    let (name, online) = (&primary.primary, primary.online);
    if !primary.is_primary {
        let problem = format!("server {name} is a replica, and refuses writes");
        let advice = "set redis.url to its primary, or redis.sentinel. Only if its primary is lost for good: REPLICAOF NO ONE makes it a primary";
        return vec![Finding::problem(problem, Remedy::advice(advice))];
    }
    let mut findings = Vec::new();
    let (required, ack) = &needs.ack;
    if online < *required {
        let note = format!(
            "redis.ack is {ack}, but the server {name} has {online} replicas: writes to it get 503"
        );
        findings.push(Finding::note(note, add_replica(primary)));
    }
    if online == 0 && needs.is_read {
        let note = format!(
            "redis.read_from is replica, but the server {name} has no replicas: it answers all reads itself"
        );
        findings.push(Finding::note(note, add_replica(primary)));
    }
    let problems = primary.problems.iter();
    findings.extend(problems.map(|(address, problem)| of_replica(primary, address, problem)));
    findings
}

/// Adds a replica.
fn add_replica(primary: &PrimaryReplicas) -> Remedy {
    let name = &primary.primary;
    let command = match (&primary.node_id, name.rsplit_once(':')) {
        (Some(id), _) => format!(
            "redis-cli --cluster add-node REPLICA:6379 {name} --cluster-slave --cluster-master-id {id}"
        ),
        (None, Some((host, port))) => {
            format!("redis-cli -h REPLICA -p 6379 REPLICAOF {host} {port}")
        }
        (None, None) => "redis-cli -h REPLICA -p 6379 REPLICAOF PRIMARY 6379".to_owned(),
    };
    Remedy::command(command)
        .knowing("REPLICA is a server with the module that has no data of its own, or one that was a replica before")
}

/// What is wrong with a replica.
fn of_replica(primary: &PrimaryReplicas, (host, port): &Address, problem: &LinkProblem) -> Finding {
    let name = &primary.primary;
    let replica = format!("{host}:{port}");
    let client = client(&replica);
    let follow = || match (&primary.node_id, name.rsplit_once(':')) {
        (Some(id), _) => format!("{client} CLUSTER REPLICATE {id}"),
        (None, Some((host, port))) => format!("{client} REPLICAOF {host} {port}"),
        (None, None) => format!("{client} REPLICAOF PRIMARY 6379"),
    };
    match problem {
        LinkProblem::Syncing(state) => Finding::note(
            format!("the replica {replica} is not in sync with {name} yet: {state}"),
            Remedy::advice(format!(
                "no command makes it faster: it copies the data, and is in sync when `{client} INFO replication` says master_link_status:up. If it begins again and again, raise client-output-buffer-limit for replicas on {name}"
            )),
        ),
        LinkProblem::Behind => Finding::note(
            format!("the replica {replica} lags: for seconds it has not received what {name} had written"),
            Remedy::command(format!("{client} CLIENT KILL TYPE master")).knowing(
                "it connects again, and continues where it was. If it lags again, its network, its disk or its CPU is too slow",
            ),
        ),
        LinkProblem::LinkDown => Finding::note(
            format!("the replica {replica} has no link to its primary"),
            Remedy::command(follow()).knowing(
                "if it has this primary already, its log says why it cannot connect: the network, masterauth, or a server that still loads",
            ),
        ),
        LinkProblem::Primary => Finding::note(
            format!("redis.replicas has {replica}, which is a primary: it is not read"),
            Remedy::command(follow())
                .knowing("this deletes its own data. Otherwise remove it from redis.replicas"),
        ),
        LinkProblem::NotConnected => Finding::note(
            format!("the replica {replica} is not connected to {name}: it is down, or its link is"),
            Remedy::command(follow()).knowing(
                "start its server first if it does not run: it then connects by itself. If it is gone for good, CLUSTER FORGET removes it",
            ),
        ),
        LinkProblem::Unreachable(reason) => Finding::note(
            format!("the replica {replica} does not answer: {reason}"),
            Remedy::advice(
                "no command of Redis starts a server: start it, or remove it from redis.replicas; then it connects by itself",
            ),
        ),
    }
}
