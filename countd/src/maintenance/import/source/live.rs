//! Reads the keys of a live Redis: a server or a cluster.

use super::chunk::{Chunks, Sender, channel};
use super::live_reader::{Reader, Stopped, info, source_error};
use super::pattern::KeyPattern;
use super::shape::Shape;
use crate::domain::ids::Name;
use crate::redis::cluster::{Cluster, Commands, Server};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisError};
use std::sync::Arc;
use std::time::Duration;

/// The keys of a live Redis.
#[derive(Clone)]
pub struct LiveSource {
    /// Its URL.
    pub url: String,
    /// The timeout of a command.
    pub timeout: Duration,
    /// The form of the data.
    pub shape: Shape,
    /// The entity type of the records.
    pub etype: Name,
}

/// A part of a source that has its own cursor.
struct Stage<'a> {
    /// The key pattern, or the Hash.
    what: What<'a>,
    /// The index of the server. Not used for a Hash.
    server: usize,
}

#[derive(Clone, Copy)]
enum What<'a> {
    Keys(&'a KeyPattern),
    Hash(&'a str, &'a str),
}

impl LiveSource {
    /// Starts to read the keys, from a stored cursor on.
    pub fn open(&self, cursor: Option<String>) -> Chunks {
        let (sender, chunks) = channel();
        let source = self.clone();
        tokio::spawn(async move {
            if let Err(Some(error)) = source.send(cursor, &sender).await {
                // The receiver has stopped.
                let _ = sender.send(Err(error)).await;
            }
        });
        chunks
    }

    async fn send(&self, cursor: Option<String>, sender: &Sender) -> Result<(), Stopped> {
        let mut reader = self.connect(sender.clone()).await.map_err(source_error)?;
        let stages = self.stages(reader.servers.len());
        let (first, mut cursor) = reader.parse_cursor(cursor.as_deref());
        for (number, stage) in stages.iter().enumerate().skip(first) {
            loop {
                cursor = self.read_page(&mut reader, stage, &cursor).await?;
                let (stage, next) = match cursor.as_str() {
                    "0" => (number + 1, "0"),
                    next => (number, next),
                };
                let position = format!("{}|{stage}|{next}", reader.run_ids);
                reader.flush(Some(position)).await?;
                if cursor == "0" {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn connect(&self, sender: Sender) -> Result<Reader, RedisError> {
        let client = Client::open(self.url.as_str())?;
        let settings = ConnectionManagerConfig::new()
            .set_response_timeout(Some(self.timeout))
            .set_connection_timeout(Some(self.timeout));
        let mut first =
            ConnectionManager::new_with_config(client.clone(), settings.clone()).await?;
        let is_cluster = field(&info(&mut first).await?, "redis_mode") == "cluster";
        let commands = match is_cluster {
            true => Commands::Cluster(Cluster::connect(&client, Vec::new(), settings).await?),
            false => Commands::Server(Server::new(first)),
        };
        let servers = commands.servers()?;
        let mut run_ids = Vec::new();
        for mut server in servers.clone() {
            run_ids.push(field(&info(&mut server).await?, "run_id").to_owned());
        }
        Ok(Reader {
            commands,
            servers,
            run_ids: run_ids.join(","),
            etype: self.etype.clone(),
            sender,
            items: Vec::new(),
            invalid: Vec::new(),
        })
    }

    fn stages(&self, servers: usize) -> Vec<Stage<'_>> {
        let patterns = match &self.shape {
            Shape::HashPerCounter(hashes) => {
                let hashes = hashes.iter().map(|(key, metric)| Stage {
                    what: What::Hash(key, metric),
                    server: 0,
                });
                return hashes.collect();
            }
            Shape::Sets { pattern, .. }
            | Shape::Bitmap { pattern, .. }
            | Shape::HashPerEntity { pattern, .. } => vec![pattern],
            Shape::Packed(packed) => {
                let increments = packed.increments.iter();
                [&packed.pattern].into_iter().chain(increments).collect()
            }
        };
        let of_servers = patterns.into_iter().flat_map(|pattern| {
            let what = What::Keys(pattern);
            (0..servers).map(move |server| Stage { what, server })
        });
        of_servers.collect()
    }

    /// Reads a page of keys, or of fields of a Hash. Returns the next cursor.
    async fn read_page(
        &self,
        reader: &mut Reader,
        stage: &Stage<'_>,
        cursor: &str,
    ) -> Result<String, Stopped> {
        let pattern = match stage.what {
            What::Keys(pattern) => pattern,
            What::Hash(key, metric) => return reader.hash_page(key, metric, cursor).await,
        };
        let (next, found) = reader.scan(stage.server, pattern, cursor).await?;
        let mut keys = Vec::with_capacity(found.len());
        for key in found {
            let text = String::from_utf8_lossy(&key).into_owned();
            match pattern.id(&text) {
                Ok(id) => keys.push((Arc::from(text), id)),
                Err(problem) => reader.reject(&Arc::from(text), problem),
            }
        }
        match &self.shape {
            Shape::Sets { metric, .. } => {
                for (key, id) in &keys {
                    reader.set(key, id, metric).await?;
                }
            }
            Shape::Bitmap { metric, .. } => {
                for (key, id) in &keys {
                    reader.bitmap(key, id, metric).await?;
                }
            }
            Shape::HashPerEntity { fields, .. } => reader.hashes(&keys, fields).await?,
            Shape::Packed(packed) => reader.packed(&keys, packed).await?,
            Shape::HashPerCounter(_) => {}
        }
        Ok(next)
    }
}

fn field<'a>(info: &'a str, name: &str) -> &'a str {
    let mut values = info.lines().filter_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found == name).then_some(value.trim_end())
    });
    values.next().unwrap_or_default()
}
