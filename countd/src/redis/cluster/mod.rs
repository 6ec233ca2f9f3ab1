//! The nodes of a Redis Cluster as one connection.
//!
//! Commands go to the node that has their key's slot; those of a pipeline go to all nodes at the same time, in one round trip each,
//! and in their order on each node. Redirections are followed. What was lost with a connection is not sent again, since nobody
//! knows whether it was done: that is for the caller to decide. (The cluster client of the `redis` crate sends it again by itself.
//! An append would count twice then.)

mod route;

use futures_util::future::{join_all, select_ok};
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::{
    Client, Cmd, ConnectionAddr, ConnectionInfo, FromRedisValue, Pipeline, RedisError, RedisFuture,
    Value,
};
pub use route::Ranges;
use route::{Address, Target, down, redirection, target};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// So often a command is sent on to another node before its redirection counts as its reply.
const REDIRECTIONS: usize = 5;

/// All nodes. Cheap to clone.
#[derive(Clone)]
pub struct Cluster(Arc<Inner>);

struct Inner {
    /// The node that the configuration names, and how to log in.
    seed: ConnectionInfo,
    settings: ConnectionManagerConfig,
    connections: Mutex<HashMap<Address, ConnectionManager>>,
    ranges: RwLock<Arc<Ranges>>,
    /// The ranges are to be asked for again.
    is_stale: AtomicBool,
    refreshing: tokio::sync::Mutex<()>,
}

/// The commands for one node: their places in the pipeline, and whether they come after `ASKING`.
type AssignedPartitions = Vec<(usize, bool)>;

impl Cluster {
    /// Asks the node of `client` for the others.
    ///
    /// # Errors
    /// It is not there, or knows nobody who serves slots.
    pub async fn connect(
        client: &Client,
        settings: ConnectionManagerConfig,
    ) -> Result<Cluster, RedisError> {
        let cluster = Cluster(Arc::new(Inner {
            seed: client.get_connection_info().clone(),
            settings,
            connections: Mutex::default(),
            ranges: RwLock::default(),
            is_stale: AtomicBool::new(true),
            refreshing: tokio::sync::Mutex::default(),
        }));
        cluster.refresh().await?;
        Ok(cluster)
    }

    /// A connection to each master.
    ///
    /// # Errors
    /// An address is none.
    pub fn masters(&self) -> Result<Vec<ConnectionManager>, RedisError> {
        let ranges = self.ranges();
        let masters = ranges.masters().iter();
        masters.map(|address| self.node(address)).collect()
    }

    /// Whether every slot has a master.
    pub fn is_whole(&self) -> bool {
        self.ranges().slots() == usize::from(crate::domain::keys::MAX_PARTITIONS)
    }

    /// Who serves which slots, as far as it is known.
    pub fn ranges(&self) -> Arc<Ranges> {
        let ranges = self.0.ranges.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&ranges)
    }

    fn node(&self, address: &Address) -> Result<ConnectionManager, RedisError> {
        let connections = self.0.connections.lock();
        let mut connections = connections.unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = connections.get(address) {
            return Ok(connection.clone());
        }
        let (host, port) = address.clone();
        let info = self.0.seed.clone();
        let client = Client::open(info.set_addr(ConnectionAddr::Tcp(host, port)))?;
        let connection = ConnectionManager::new_lazy_with_config(client, self.0.settings.clone())?;
        connections.insert(address.clone(), connection.clone());
        Ok(connection)
    }

    /// Asks who has which slots, if that may have changed: all nodes at the same time, since one that is gone may take long to say
    /// nothing.
    async fn refresh(&self) -> Result<(), RedisError> {
        let _one_at_a_time = self.0.refreshing.lock().await;
        if !self.0.is_stale.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let mut candidates: BTreeSet<Address> = self.ranges().masters().iter().cloned().collect();
        if let ConnectionAddr::Tcp(host, port) = self.0.seed.addr() {
            candidates.insert((host.clone(), *port));
        }
        let asked = candidates
            .iter()
            .map(|address| Box::pin(self.slots_of(address)));
        let asked: Vec<_> = asked.collect();
        let found = match asked.is_empty() {
            true => Err(down("the address is none of a cluster")),
            false => select_ok(asked).await,
        };
        match found {
            Ok((ranges, _)) => {
                let known = self.0.ranges.write();
                *known.unwrap_or_else(PoisonError::into_inner) = Arc::new(ranges);
                Ok(())
            }
            Err(why) => {
                self.0.is_stale.store(true, Ordering::Release);
                Err(why)
            }
        }
    }

    async fn slots_of(&self, address: &Address) -> Result<Ranges, RedisError> {
        let mut node = self.node(address)?;
        let rows: Vec<Vec<Value>> = redis::cmd("CLUSTER")
            .arg("SLOTS")
            .query_async(&mut node)
            .await?;
        let mut ranges = Vec::with_capacity(rows.len());
        for row in rows {
            let [first, last, master] =
                <[Value; 3]>::try_from(row.into_iter().take(3).collect::<Vec<_>>())
                    .map_err(|_| down("CLUSTER SLOTS replied something else"))?;
            let master = Vec::<Value>::from_redis_value(master)?;
            let mut master = master.into_iter();
            let host = match master.next() {
                Some(Value::Nil) | None => String::new(),
                Some(host) => String::from_redis_value(host)?,
            };
            let port = u16::from_redis_value(master.next().unwrap_or(Value::Nil))?;
            // A node that does not know its own address is where it was asked.
            let host = match host.as_str() {
                "" | "?" => address.0.clone(),
                _ => host,
            };
            let (first, last) = (u16::from_redis_value(first)?, u16::from_redis_value(last)?);
            ranges.push((first, last, (host, port)));
        }
        match ranges.is_empty() {
            true => Err(down("nobody serves slots")),
            false => Ok(Ranges::new(ranges)),
        }
    }

    /// Sends commands, and returns their replies in their order. An error of a command is among the replies.
    async fn send(&self, commands: &[&Cmd]) -> Result<Vec<Value>, RedisError> {
        let mut replies: Vec<Option<Value>> = vec![None; commands.len()];
        let targets = commands.iter().map(|command| target(command));
        let mut todo: Vec<(usize, Target)> = targets.enumerate().collect();
        for _ in 0..=REDIRECTIONS {
            if self.0.is_stale.load(Ordering::Acquire) {
                self.refresh().await?;
            }
            let shares = self.share(&todo)?;
            let keyless: BTreeSet<usize> = todo
                .iter()
                .filter(|(_, target)| *target == Target::Every)
                .map(|(at, _)| *at)
                .collect();
            let sent = shares.into_iter().map(|(address, share)| async move {
                let replies = self.send_share(&address, commands, &share).await;
                (share, replies)
            });
            let (mut failed, mut again) = (None, Vec::new());
            for (share, found) in join_all(sent).await {
                let found = match found {
                    Ok(found) => found,
                    Err(why) => {
                        self.0.is_stale.store(true, Ordering::Release);
                        failed = Some((why, share));
                        continue;
                    }
                };
                for ((at, _), reply) in share.into_iter().zip(found) {
                    if let Some(target) = redirection(&reply) {
                        if !matches!(target, Target::Node(_, true)) {
                            self.0.is_stale.store(true, Ordering::Release);
                        }
                        again.push((at, target));
                    }
                    let is_better = |old: &Value| matches!(old, Value::ServerError(_));
                    if !keyless.contains(&at) || replies[at].as_ref().is_none_or(is_better) {
                        replies[at] = Some(reply);
                    }
                }
            }
            if let Some((why, share)) = failed {
                // Of those without a key one reply is enough.
                let is_lost =
                    |(at, _): &(usize, bool)| !keyless.contains(at) || replies[*at].is_none();
                if share.iter().any(is_lost) {
                    return Err(why);
                }
            }
            if again.is_empty() {
                break;
            }
            again.sort_by_key(|(at, _)| *at);
            todo = again;
        }
        Ok(replies
            .into_iter()
            .map(|reply| reply.unwrap_or(Value::Nil))
            .collect())
    }

    /// Which node gets what.
    fn share(
        &self,
        todo: &[(usize, Target)],
    ) -> Result<BTreeMap<Address, AssignedPartitions>, RedisError> {
        let ranges = self.ranges();
        let mut shares: BTreeMap<Address, AssignedPartitions> = BTreeMap::new();
        // Those that get something first: what has no key goes to them.
        for (_, target) in todo {
            if let Some(address) = ranges.address(target)? {
                shares.entry(address).or_default();
            }
        }
        if shares.is_empty() {
            let masters = ranges.masters().iter();
            shares = masters
                .map(|address| (address.clone(), Vec::new()))
                .collect();
        }
        for (at, target) in todo {
            match ranges.address(target)? {
                Some(address) => {
                    let asks = matches!(target, Target::Node(_, true));
                    shares.entry(address).or_default().push((*at, asks));
                }
                None => shares
                    .values_mut()
                    .for_each(|share| share.push((*at, false))),
            }
        }
        Ok(shares)
    }

    async fn send_share(
        &self,
        address: &Address,
        commands: &[&Cmd],
        share: &AssignedPartitions,
    ) -> Result<Vec<Value>, RedisError> {
        let mut pipe = Pipeline::with_capacity(share.len());
        for (at, asks) in share {
            if *asks {
                pipe.cmd("ASKING");
            }
            pipe.add_command(commands[*at].clone());
        }
        let mut node = self.node(address)?;
        let count = pipe.len();
        let mut replies = node.req_packed_commands(&pipe, 0, count).await?.into_iter();
        let mut found = Vec::with_capacity(share.len());
        for (_, asks) in share {
            if *asks {
                replies.next();
            }
            found.extend(replies.next());
        }
        Ok(found)
    }
}

/// Where commands are sent: one server, or a cluster.
#[derive(Clone)]
pub enum Commands {
    /// One server.
    One(ConnectionManager),
    /// A cluster.
    Many(Cluster),
}

impl ConnectionLike for Commands {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Commands::One(server) => server.req_packed_command(cmd),
            Commands::Many(cluster) => Box::pin(async move {
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
            Commands::One(server) => server.req_packed_commands(pipeline, offset, count),
            Commands::Many(cluster) => Box::pin(async move {
                let commands: Vec<&Cmd> = pipeline.cmd_iter().collect();
                let replies = cluster.send(&commands).await?;
                Ok(replies.into_iter().skip(offset).take(count).collect())
            }),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Commands::One(server) => server.get_db(),
            Commands::Many(_) => 0,
        }
    }
}
