//! Inspects the replicas of all primaries: which are connected, which are behind, and which have no link.

use super::address::Address;
use super::endpoint::client_at;
use super::permissions::Permissions;
use super::replicas::{Replication, replicas_of_node};
use super::store::Store;
use crate::domain::error::StoreError;
use redis::RedisError;
use redis::aio::ConnectionManager;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Commands that this file sends to a cluster.
const CLUSTER_PERMISSIONS: &[&str] = &["CLUSTER NODES"];

/// The permissions that an inspection requires beside those of every process.
pub fn required_permissions(is_cluster: bool) -> Permissions {
    Permissions::of_commands(if is_cluster { CLUSTER_PERMISSIONS } else { &[] })
}

/// How long a replica may take to say that it has what its primary had. A replica says so each second.
const PATIENCE: Duration = Duration::from_secs(3);
/// The interval between two looks.
const POLL: Duration = Duration::from_millis(100);

/// What is wrong with a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkProblem {
    /// It copies the data of its primary. The state is as the primary names it.
    Syncing(String),
    /// For some seconds it has not received what its primary had written before.
    Behind,
    /// It does not answer.
    Unreachable(String),
    /// It is connected to no primary.
    LinkDown,
    /// It is a primary.
    Primary,
    /// It belongs to the primary, which has no connection of it.
    NotConnected,
}

/// The replicas of a primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryReplicas {
    /// The address of the primary as `host:port`.
    pub primary: String,
    /// Its ID in the cluster; `None` on one server.
    pub node_id: Option<String>,
    /// Whether it is a primary at all.
    pub is_primary: bool,
    /// The number of replicas that are in sync.
    pub online: usize,
    /// The replicas with a problem.
    pub problems: Vec<(Address, LinkProblem)>,
}

/// Inspects the replicas of all primaries, and those at these addresses (`redis.replicas`).
///
/// # Errors
/// A primary is unavailable.
pub async fn inspect_replicas(
    store: &Store,
    configured: &[Address],
) -> Result<Vec<PrimaryReplicas>, StoreError> {
    let mut inspected = Vec::new();
    for (primary, mut server) in store.named_servers()? {
        let first = Replication::read(&mut server).await?;
        let last = wait_for_replicas(&mut server, &first).await?;
        let mut problems = problems_of_primary(&first, &last);
        let mut node_id = None;
        let nodes = match store.keys().tagged() {
            true => cluster_replicas(&mut server).await?,
            false => None,
        };
        if let Some((own, replicas)) = nodes {
            let connected: BTreeSet<&Address> = last
                .connected
                .iter()
                .map(|replica| &replica.address)
                .collect();
            let missing = replicas.into_iter().filter(|one| !connected.contains(one));
            problems.extend(missing.map(|address| (address, LinkProblem::NotConnected)));
            node_id = Some(own);
        }
        inspected.push(PrimaryReplicas {
            primary,
            node_id,
            is_primary: last.is_primary,
            online: last.replicas.len(),
            problems,
        });
    }
    if let Some(first) = inspected.first_mut() {
        for address in configured {
            let is_known = first.problems.iter().any(|(known, _)| known == address);
            if let Some(problem) = ask(store, address).await.filter(|_| !is_known) {
                first.problems.push((address.clone(), problem));
            }
        }
    }
    Ok(inspected)
}

/// Waits until the replicas in sync have what the primary had, but not longer than [`PATIENCE`].
async fn wait_for_replicas(
    server: &mut ConnectionManager,
    first: &Replication,
) -> Result<Replication, RedisError> {
    let started = Instant::now();
    loop {
        let now = Replication::read(server).await?;
        if problems_of_primary(first, &now).is_empty() || started.elapsed() > PATIENCE {
            return Ok(now);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The replicas that are syncing, and the replicas whose acknowledged offset is below the primary's offset of `before`.
fn problems_of_primary(before: &Replication, now: &Replication) -> Vec<(Address, LinkProblem)> {
    let replicas = now.connected.iter();
    let problems = replicas.filter_map(|replica| {
        let problem = match replica.is_online() {
            false => LinkProblem::Syncing(replica.state.clone()),
            true if replica.offset < before.offset => LinkProblem::Behind,
            true => return None,
        };
        Some((replica.address.clone(), problem))
    });
    problems.collect()
}

/// The ID of a node, and the replicas that belong to it. `None` if the user may not know, as one that only serves.
async fn cluster_replicas(
    server: &mut ConnectionManager,
) -> Result<Option<(String, Vec<Address>)>, RedisError> {
    let mut nodes = redis::cmd("CLUSTER");
    match nodes.arg("NODES").query_async::<String>(server).await {
        Ok(nodes) => Ok(Some(replicas_of_node(&nodes))),
        Err(error) if error.code() == Some("NOPERM") => Ok(None),
        Err(error) => Err(error),
    }
}

/// Asks a replica for its link. `None` if all is well.
async fn ask(store: &Store, address: &Address) -> Option<LinkProblem> {
    let endpoint = store.endpoint();
    let info = endpoint.client().get_connection_info();
    let read = async {
        let client = client_at(info, address)?;
        let mut replica = client.get_multiplexed_async_connection().await?;
        Replication::read(&mut replica).await
    };
    match tokio::time::timeout(store.timeout(), read).await {
        Err(_) => Some(LinkProblem::Unreachable("no answer in time".to_owned())),
        Ok(Err(error)) => Some(LinkProblem::Unreachable(error.to_string())),
        Ok(Ok(replica)) if replica.is_primary => Some(LinkProblem::Primary),
        Ok(Ok(replica)) if !replica.is_linked => Some(LinkProblem::LinkDown),
        Ok(Ok(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::replicas::ConnectedReplica;

    fn with_replicas(offset: u64, replicas: &[(u16, &str, u64)]) -> Replication {
        let connected = replicas
            .iter()
            .map(|(port, state, offset)| ConnectedReplica {
                address: ("h".to_owned(), *port),
                state: (*state).to_owned(),
                offset: *offset,
            });
        Replication {
            offset,
            is_primary: true,
            connected: connected.collect(),
            ..Replication::default()
        }
    }

    #[test]
    fn a_replica_is_behind_if_it_lacks_what_the_primary_had_before() {
        let before = with_replicas(100, &[(1, "online", 90), (2, "online", 100)]);
        let now = with_replicas(
            500,
            &[(1, "online", 99), (2, "online", 100), (3, "wait_bgsave", 0)],
        );
        let of = |port: u16, problem: LinkProblem| (("h".to_owned(), port), problem);
        let expected = [
            of(1, LinkProblem::Behind),
            of(3, LinkProblem::Syncing("wait_bgsave".to_owned())),
        ];
        assert_eq!(problems_of_primary(&before, &now), expected);
        let now = with_replicas(500, &[(1, "online", 100)]);
        assert_eq!(problems_of_primary(&before, &now), []);
    }
}
