//! Where commands are sent: one server, or the nodes of a cluster.

use super::connection::Cluster;
use super::via::Via;
use crate::domain::keys::ACK;
use crate::redis::ack::{AckRule, AckedNode, Mark};
use crate::redis::address::Address;
use crate::redis::replicas::Replicas;
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, Pipeline, RedisError, RedisFuture, Value};
use std::sync::Arc;

/// A connection to one server. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    connection: ConnectionManager,
    via: Via<AckedNode>,
}

impl Server {
    /// The server of a connection.
    pub fn new(connection: ConnectionManager) -> Server {
        Server {
            connection,
            via: Via::Primary,
        }
    }

    /// The address under which its replicas are known.
    fn address() -> Address {
        (String::new(), 0)
    }

    /// Sends commands and returns their replies in order. The error of a command is its reply.
    async fn send(&mut self, commands: &[&Cmd]) -> Result<Vec<Value>, RedisError> {
        let all = || commands.iter().map(|command| (*command).clone());
        match &self.via {
            Via::Primary => {}
            Via::Acked(acked) => return acked.send(all().collect(), vec![Mark::new(ACK)]).await,
            Via::Replicas(replicas) => {
                if let Some(replies) = replicas.read(&Server::address(), all()).await {
                    return Ok(replies);
                }
            }
        }
        let mut pipeline = Pipeline::with_capacity(commands.len());
        for command in all() {
            pipeline.add_command(command);
        }
        let count = pipeline.len();
        (self.connection)
            .req_packed_commands(&pipeline, 0, count)
            .await
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
            Commands::Server(server) => Ok(vec![server.connection.clone()]),
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
            Commands::Server(_) => servers
                .into_iter()
                .map(|s| (Server::address(), s))
                .collect(),
            Commands::Cluster(cluster) => {
                let ranges = cluster.ranges();
                ranges.masters().iter().cloned().zip(servers).collect()
            }
        })
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

    /// Connections to the same servers that return replies only once they are as safe as required. `client` has the address of one server,
    /// `settings` are those of the connections.
    ///
    /// # Errors
    /// The settings are invalid.
    pub fn acked(
        &self,
        client: &Client,
        settings: ConnectionManagerConfig,
        rule: AckRule,
    ) -> Result<Commands, RedisError> {
        Ok(match self {
            Commands::Server(server) => Commands::Server(Server {
                via: Via::Acked(AckedNode::new(client, &settings, rule)?),
                ..server.clone()
            }),
            Commands::Cluster(cluster) => Commands::Cluster(cluster.acked(settings, rule)),
        })
    }
}

impl ConnectionLike for Commands {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Commands::Server(server) => match server.via {
                Via::Primary => server.connection.req_packed_command(cmd),
                _ => Box::pin(async move {
                    let mut replies = server.send(&[cmd]).await?;
                    replies.pop().unwrap_or(Value::Nil).extract_error()
                }),
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
                Via::Primary => (server.connection).req_packed_commands(pipeline, offset, count),
                _ => Box::pin(async move {
                    let commands: Vec<&Cmd> = pipeline.cmd_iter().collect();
                    let replies = server.send(&commands).await?;
                    Ok(replies.into_iter().skip(offset).take(count).collect())
                }),
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
            Commands::Server(server) => server.connection.get_db(),
            Commands::Cluster(_) => 0,
        }
    }
}
