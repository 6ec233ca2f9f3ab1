//! Where commands are sent: one server, or the nodes of a cluster.

use super::acked::AckedNodes;
use super::connection::Cluster;
use super::via::Via;
use crate::domain::keys::ACK;
use crate::redis::ack::{AckRule, Mark};
use crate::redis::address::Address;
use crate::redis::replicas::Replicas;
use crate::redis::sentinel::FollowedMaster;
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, Pipeline, RedisError, RedisFuture, Value};
use std::sync::Arc;

/// A connection to one server. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    at: At,
    via: Via<Arc<AckedNodes>>,
}

/// Which server it is.
#[derive(Clone)]
enum At {
    /// Always the same.
    Fixed(Arc<Client>, ConnectionManager),
    /// The master, which can become another one.
    Master(Arc<FollowedMaster>),
}

impl Server {
    /// The server of a client and its connection.
    pub fn new(client: Client, connection: ConnectionManager) -> Server {
        Server {
            at: At::Fixed(Arc::new(client), connection),
            via: Via::Primary,
        }
    }

    /// The master that Sentinels know.
    pub fn followed(master: Arc<FollowedMaster>) -> Server {
        Server {
            at: At::Master(master),
            via: Via::Primary,
        }
    }

    /// The shared connection to the server that it is now.
    pub fn connection(&self) -> ConnectionManager {
        match &self.at {
            At::Fixed(_, connection) => connection.clone(),
            At::Master(master) => master.current().connection.clone(),
        }
    }

    /// The client of the server that it is now.
    fn client(&self) -> Client {
        match &self.at {
            At::Fixed(client, _) => Client::clone(client),
            At::Master(master) => master.current().client.clone(),
        }
    }

    /// The address under which its replicas are known.
    fn address(&self) -> Address {
        match &self.at {
            At::Fixed(..) => (String::new(), 0),
            At::Master(master) => master.current().address.clone(),
        }
    }

    /// Sends commands and returns their replies in order. The error of a command is its reply.
    async fn send(&mut self, commands: &[&Cmd]) -> Result<Vec<Value>, RedisError> {
        let all = || commands.iter().map(|command| (*command).clone());
        match &self.via {
            Via::Primary => {}
            Via::Acked(acked) => {
                let node = acked.node(&self.address(), || Ok(self.client()))?;
                return node.send(all().collect(), vec![Mark::new(ACK)]).await;
            }
            Via::Replicas(replicas) => {
                if let Some(replies) = replicas.read(&self.address(), all()).await {
                    return Ok(replies);
                }
            }
        }
        let mut pipeline = Pipeline::with_capacity(commands.len());
        for command in all() {
            pipeline.add_command(command);
        }
        let count = pipeline.len();
        let mut connection = self.connection();
        connection.req_packed_commands(&pipeline, 0, count).await
    }

    /// Sends a command and returns its reply.
    fn request<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let mut replies = self.send(&[cmd]).await?;
            replies.pop().unwrap_or(Value::Nil).extract_error()
        })
    }

    /// Sends the commands of a pipeline and returns `count` replies from `offset` on.
    fn request_all<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let commands: Vec<&Cmd> = pipeline.cmd_iter().collect();
            let replies = self.send(&commands).await?;
            Ok(replies.into_iter().skip(offset).take(count).collect())
        })
    }
}

/// Where commands are sent: one server, or a cluster.
#[derive(Clone)]
pub enum Commands {
    /// One server.
    Server(Server),
    /// The nodes of a cluster.
    Cluster(Cluster),
}

impl Commands {
    /// A connection to the server, or to each master of the cluster.
    ///
    /// # Errors
    /// The address of a node is invalid.
    pub fn servers(&self) -> Result<Vec<ConnectionManager>, RedisError> {
        match self {
            Commands::Server(server) => Ok(vec![server.connection()]),
            Commands::Cluster(cluster) => cluster.masters(),
        }
    }

    /// [`servers`](Self::servers), with the addresses under which their replicas are known.
    ///
    /// # Errors
    /// The address of a node is invalid.
    pub fn addressed_servers(&self) -> Result<Vec<(Address, ConnectionManager)>, RedisError> {
        let servers = self.servers()?;
        Ok(match self {
            Commands::Server(server) => servers
                .into_iter()
                .map(|connection| (server.address(), connection))
                .collect(),
            Commands::Cluster(cluster) => {
                let ranges = cluster.ranges();
                ranges.masters().iter().cloned().zip(servers).collect()
            }
        })
    }

    /// The client of the server that it is now; `None` for a cluster.
    pub fn client(&self) -> Option<Client> {
        match self {
            Commands::Server(server) => Some(server.client()),
            Commands::Cluster(_) => None,
        }
    }

    /// Connections to the same servers for reads that replicas may answer.
    pub fn with_replicas(&self, replicas: Arc<Replicas>) -> Commands {
        match self {
            Commands::Server(server) => Commands::Server(Server {
                via: Via::Replicas(replicas),
                ..server.clone()
            }),
            Commands::Cluster(cluster) => Commands::Cluster(cluster.with_replicas(replicas)),
        }
    }

    /// Connections to the same servers that return replies only once they are as safe as required. `settings` are those of the
    /// connections.
    pub fn acked(&self, settings: ConnectionManagerConfig, rule: AckRule) -> Commands {
        match self {
            Commands::Server(server) => Commands::Server(Server {
                via: Via::Acked(Arc::new(AckedNodes::new(settings, rule))),
                ..server.clone()
            }),
            Commands::Cluster(cluster) => Commands::Cluster(cluster.acked(settings, rule)),
        }
    }
}

impl ConnectionLike for Commands {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Commands::Server(server) => match server.via {
                Via::Primary => match server.at {
                    At::Fixed(_, ref mut connection) => connection.req_packed_command(cmd),
                    At::Master(_) => server.request(cmd),
                },
                _ => server.request(cmd),
            },
            Commands::Cluster(cluster) => Box::pin(async move {
                let mut replies = cluster.send(&[cmd]).await?;
                replies.pop().unwrap_or(Value::Nil).extract_error()
            }),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Commands::Server(server) => match server.via {
                Via::Primary => match server.at {
                    At::Fixed(_, ref mut connection) => {
                        connection.req_packed_commands(pipeline, offset, count)
                    }
                    At::Master(_) => server.request_all(pipeline, offset, count),
                },
                _ => server.request_all(pipeline, offset, count),
            },
            Commands::Cluster(cluster) => Box::pin(async move {
                let commands: Vec<&Cmd> = pipeline.cmd_iter().collect();
                let replies = cluster.send(&commands).await?;
                Ok(replies.into_iter().skip(offset).take(count).collect())
            }),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Commands::Server(server) => server.connection().get_db(),
            Commands::Cluster(_) => 0,
        }
    }
}
