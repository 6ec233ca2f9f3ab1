//! Where commands are sent: one server, or the nodes of a cluster.

use super::connection::Cluster;
use crate::domain::keys::ACK;
use crate::redis::ack::{AckRule, AckedNode, Mark};
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, Pipeline, RedisError, RedisFuture, Value};

/// A connection to one server. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    /// The connection.
    connection: ConnectionManager,
    /// The connections for writes that wait for acknowledgements, if this is one for such writes.
    acked: Option<AckedNode>,
}

impl Server {
    /// The server of a connection.
    pub fn new(connection: ConnectionManager) -> Server {
        Server {
            connection,
            acked: None,
        }
    }
}

async fn send_acked(acked: &AckedNode, commands: Vec<Cmd>) -> Result<Vec<Value>, RedisError> {
    acked.send(commands, vec![Mark::new(ACK)]).await
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
                acked: Some(AckedNode::new(client, &settings, rule)?),
                ..server.clone()
            }),
            Commands::Cluster(cluster) => Commands::Cluster(cluster.acked(settings, rule)),
        })
    }
}

impl ConnectionLike for Commands {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Commands::Server(server) => match &server.acked {
                None => server.connection.req_packed_command(cmd),
                Some(acked) => Box::pin(async move {
                    let mut replies = send_acked(acked, vec![cmd.clone()]).await?;
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
            Commands::Server(server) => match &server.acked {
                None => (server.connection).req_packed_commands(pipeline, offset, count),
                Some(acked) => Box::pin(async move {
                    let commands = pipeline.cmd_iter().cloned().collect();
                    let replies = send_acked(acked, commands).await?;
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
