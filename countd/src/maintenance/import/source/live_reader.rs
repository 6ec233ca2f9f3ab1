//! Reads the values of keys of a live Redis and turns them into records.

use super::chunk::{Chunk, Position, Sender};
use super::packed::{Packed, WIDTH};
use super::pattern::KeyPattern;
use super::shape::FieldMap;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::text::shorten;
use crate::maintenance::import::error::ImportError;
use crate::maintenance::import::record::{CountsRecord, FactRecord, Item, Origin, Record, count};
use crate::redis::cluster::Commands;
use redis::aio::ConnectionManager;
use redis::{FromRedisValue, RedisError, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The commands that reading a source requires, with any of its keys.
const COMMANDS: &[&str] = &[
    "INFO", "SCAN", "SSCAN", "HSCAN", "HLEN", "HGETALL", "STRLEN", "GETRANGE",
];

/// The number of keys or members that one reply has.
const PAGE: usize = 500;
/// The number of records after which a chunk ends.
const CHUNK_RECORDS: usize = 4096;
/// The size of a part of a bitmap, in bytes.
const BLOCK_BYTES: u64 = 64 * 1024;
/// The maximum number of fields of a Hash of counters.
const MAX_FIELDS: u64 = 1_000;
/// The number of attempts to read a String and its increments while they do not change.
const MAX_READS: usize = 10;

/// A connection to a source.
pub(super) struct Reader {
    pub(super) commands: Commands,
    pub(super) servers: Vec<ConnectionManager>,
    /// Identifies the servers: cursors of other servers are not valid.
    pub(super) run_ids: String,
    pub(super) etype: Name,
    pub(super) sender: Sender,
    pub(super) items: Vec<Item>,
    pub(super) invalid: Vec<(Origin, String)>,
}

/// The receiver has stopped, or reading failed.
pub(super) type Stopped = Option<ImportError>;

pub(super) fn source_error(error: RedisError) -> Stopped {
    Some(match error.code() {
        Some("NOPERM") => {
            let commands = COMMANDS.join(", ");
            ImportError::Refused(format!("the source: {error} (its user needs {commands})"))
        }
        _ => ImportError::Source(error),
    })
}

/// The reply of `INFO server`.
pub(super) async fn info(server: &mut ConnectionManager) -> Result<String, RedisError> {
    redis::cmd("INFO").arg("server").query_async(server).await
}

/// A user or entity ID of the source.
fn parse_id(bytes: &[u8]) -> Result<Id, String> {
    let text = String::from_utf8_lossy(bytes);
    Id::new(&*text).map_err(|error| format!("{}: {error}", shorten(&text)))
}

/// A decimal count of the source.
fn parse_count(name: &str, bytes: &[u8]) -> Result<u64, String> {
    let text = String::from_utf8_lossy(bytes);
    let parsed = text.parse::<i64>();
    let value = parsed.map_err(|_| format!("{name}: {} is not an integer", shorten(&text)))?;
    count(name, value)
}

impl Reader {
    /// The stage and the cursor with which to begin. The cursor of another server, or of an earlier process of it, is not valid.
    pub(super) fn parse_cursor(&self, stored: Option<&str>) -> (usize, String) {
        let parsed = stored.and_then(|stored| {
            let (run_ids, rest) = stored.split_once('|')?;
            let (stage, cursor) = rest.split_once('|')?;
            (run_ids == self.run_ids).then_some((stage.parse().ok()?, cursor.to_owned()))
        });
        parsed.unwrap_or((0, "0".to_owned()))
    }

    /// A page of the keys of a server, with the next cursor.
    pub(super) async fn scan(
        &mut self,
        server: usize,
        pattern: &KeyPattern,
        cursor: &str,
    ) -> Result<(String, Vec<Vec<u8>>), Stopped> {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(pattern.glob());
        scan.arg("COUNT").arg(PAGE);
        let page = scan.query_async(&mut self.servers[server]).await;
        page.map_err(source_error)
    }

    pub(super) fn reject(&mut self, key: &Arc<str>, problem: String) {
        self.invalid.push((Origin::Key(Arc::clone(key)), problem));
    }

    fn entity(&self, eid: &Id) -> Entity {
        Entity {
            etype: self.etype.clone(),
            eid: eid.clone(),
        }
    }

    fn push(&mut self, key: &Arc<str>, record: Record) {
        let origin = Origin::Key(Arc::clone(key));
        self.items.push(Item { origin, record });
    }

    async fn flush_if_full(&mut self) -> Result<(), Stopped> {
        match self.items.len() >= CHUNK_RECORDS {
            true => self.flush(None).await,
            false => Ok(()),
        }
    }

    pub(super) async fn flush(&mut self, cursor: Option<String>) -> Result<(), Stopped> {
        let chunk = Chunk {
            items: std::mem::take(&mut self.items),
            invalid: std::mem::take(&mut self.invalid),
            position: Position::Live(cursor),
        };
        self.sender.send(Ok(chunk)).await.map_err(|_| None)
    }

    /// Sends a command about a key. `None` if its value has another type, which is recorded.
    async fn query<T: FromRedisValue>(
        &mut self,
        key: &Arc<str>,
        cmd: &redis::Cmd,
    ) -> Result<Option<T>, Stopped> {
        match cmd.query_async(&mut self.commands).await {
            Ok(reply) => Ok(Some(reply)),
            Err(error) if is_wrong_type(&error) => {
                self.reject(key, error.to_string());
                Ok(None)
            }
            Err(error) => Err(source_error(error)),
        }
    }

    fn push_fact(&mut self, key: &Arc<str>, eid: &Id, metric: &Name, uid: Result<Id, String>) {
        match uid {
            Ok(uid) => {
                let fact = FactRecord {
                    metric: metric.clone(),
                    entity: self.entity(eid),
                    uid,
                    author: None,
                    ts: None,
                };
                self.push(key, Record::Fact(fact));
            }
            Err(problem) => self.reject(key, problem),
        }
    }

    pub(super) async fn set(
        &mut self,
        key: &Arc<str>,
        eid: &Id,
        metric: &Name,
    ) -> Result<(), Stopped> {
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = redis::cmd("SSCAN");
            scan.arg(&**key).arg(&cursor).arg("COUNT").arg(PAGE);
            let page: Option<(String, Vec<Vec<u8>>)> = self.query(key, &scan).await?;
            let Some((next, members)) = page else {
                return Ok(());
            };
            for member in members {
                self.push_fact(key, eid, metric, parse_id(&member));
            }
            self.flush_if_full().await?;
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    pub(super) async fn bitmap(
        &mut self,
        key: &Arc<str>,
        eid: &Id,
        metric: &Name,
    ) -> Result<(), Stopped> {
        let length: Option<u64> = self.query(key, redis::cmd("STRLEN").arg(&**key)).await?;
        let mut start = 0;
        while start < length.unwrap_or(0) {
            let mut read = redis::cmd("GETRANGE");
            read.arg(&**key).arg(start).arg(start + BLOCK_BYTES - 1);
            let Some(block) = self.query::<Vec<u8>>(key, &read).await? else {
                return Ok(());
            };
            for (at, byte) in (start..).zip(block) {
                // The first bit of a byte is its most significant one.
                for bit in (0..8).filter(|bit| byte & (0x80 >> bit) != 0) {
                    let uid = Id::new((at * 8 + bit).to_string()).map_err(|e| e.to_string());
                    self.push_fact(key, eid, metric, uid);
                }
                self.flush_if_full().await?;
            }
            start += BLOCK_BYTES;
        }
        Ok(())
    }

    pub(super) async fn hash_page(
        &mut self,
        hash: &str,
        metric: &str,
        cursor: &str,
    ) -> Result<String, Stopped> {
        let key: Arc<str> = Arc::from(hash);
        let mut scan = redis::cmd("HSCAN");
        scan.arg(hash).arg(cursor).arg("COUNT").arg(PAGE);
        type Page = (String, Vec<(Vec<u8>, Vec<u8>)>);
        let Some((next, pairs)) = self.query::<Page>(&key, &scan).await? else {
            return Ok("0".to_owned());
        };
        for (field, value) in pairs {
            let parsed = parse_id(&field).and_then(|eid| {
                let value = parse_count(eid.as_str(), &value)?;
                Ok((eid, value))
            });
            match parsed {
                Ok((eid, value)) => {
                    let counts = vec![(metric.to_owned(), value)];
                    let entity = self.entity(&eid);
                    self.push(&key, Record::Counts(CountsRecord { entity, counts }));
                }
                Err(problem) => self.reject(&key, problem),
            }
            self.flush_if_full().await?;
        }
        Ok(next)
    }

    pub(super) async fn hashes(
        &mut self,
        keys: &[(Arc<str>, Id)],
        map: &FieldMap,
    ) -> Result<(), Stopped> {
        let mut lengths = redis::pipe();
        for (key, _) in keys {
            lengths.cmd("HLEN").arg(&**key);
        }
        let lengths: Vec<Result<u64, RedisError>> = self.pipeline(lengths).await?;
        let (mut hashes, mut readable) = (redis::pipe(), Vec::new());
        for ((key, eid), length) in keys.iter().zip(lengths) {
            match length {
                Ok(length) if length > MAX_FIELDS => {
                    self.reject(key, format!("a Hash of {length} fields, not of counters"));
                }
                Ok(_) => {
                    hashes.cmd("HGETALL").arg(&**key);
                    readable.push((key, eid));
                }
                Err(error) if is_wrong_type(&error) => self.reject(key, error.to_string()),
                Err(error) => return Err(source_error(error)),
            }
        }
        type Pairs = Vec<(Vec<u8>, Vec<u8>)>;
        let hashes: Vec<Result<Pairs, RedisError>> = self.pipeline(hashes).await?;
        for ((key, eid), pairs) in readable.into_iter().zip(hashes) {
            let pairs = match pairs {
                Ok(pairs) => pairs,
                Err(error) if is_wrong_type(&error) => {
                    self.reject(key, error.to_string());
                    continue;
                }
                Err(error) => return Err(source_error(error)),
            };
            let counts = pairs.into_iter().filter_map(|(field, value)| {
                let field = String::from_utf8_lossy(&field);
                let metric = map.metric(&field).transpose()?;
                Some(metric.and_then(|metric| {
                    let value = parse_count(&field, &value)?;
                    Ok((metric, value))
                }))
            });
            match counts.collect::<Result<Vec<_>, String>>() {
                // A key that has expired or been deleted since the scan.
                Ok(counts) if counts.is_empty() => {}
                Ok(counts) => {
                    let entity = self.entity(eid);
                    self.push(key, Record::Counts(CountsRecord { entity, counts }));
                }
                Err(problem) => self.reject(key, problem),
            }
        }
        Ok(())
    }

    pub(super) async fn packed(
        &mut self,
        keys: &[(Arc<str>, Id)],
        packed: &Packed,
    ) -> Result<(), Stopped> {
        let mut left: Vec<&(Arc<str>, Id)> = keys.iter().collect();
        for attempt in 0..MAX_READS {
            if attempt > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            // The product adds increments to the String in several steps. Two equal reads are from one state.
            let first = self.read_packed(&left, packed).await?;
            let second = self.read_packed(&left, packed).await?;
            let mut changing = Vec::new();
            for ((entry, first), second) in left.into_iter().zip(first).zip(second) {
                let (key, eid) = entry;
                match (first, second) {
                    (Ok(first), Ok(second)) if first != second => changing.push(entry),
                    (Ok((text, increments)), Ok(_)) => {
                        // A key that was deleted since the scan.
                        if text.is_empty() && increments.is_empty() {
                            continue;
                        }
                        match packed.counts(&text, &increments) {
                            Ok(counts) => {
                                let entity = self.entity(eid);
                                let record = CountsRecord { entity, counts };
                                self.push(key, Record::Counts(record));
                            }
                            Err(problem) => self.reject(key, problem),
                        }
                    }
                    (Err(error), _) | (_, Err(error)) if is_wrong_type(&error) => {
                        self.reject(key, error.to_string());
                    }
                    (Err(error), _) | (_, Err(error)) => return Err(source_error(error)),
                }
            }
            left = changing;
            if left.is_empty() {
                return Ok(());
            }
        }
        for (key, _) in left {
            self.reject(key, "its increments changed in each attempt".to_owned());
        }
        Ok(())
    }

    /// Reads Strings and their increments.
    async fn read_packed(
        &mut self,
        keys: &[&(Arc<str>, Id)],
        packed: &Packed,
    ) -> Result<Vec<Result<(Vec<u8>, BTreeMap<String, String>), RedisError>>, Stopped> {
        let mut reads = redis::pipe();
        // One byte more than the counters, to notice a longer String.
        let last = packed.fields.len() * WIDTH;
        for (_, id) in keys {
            let key = packed.pattern.key(id.as_str());
            reads.cmd("GETRANGE").arg(key).arg(0).arg(last);
            if let Some(pattern) = &packed.increments {
                reads.cmd("HGETALL").arg(pattern.key(id.as_str()));
            }
        }
        let replies: Vec<Result<Value, RedisError>> = self.pipeline(reads).await?;
        let width = 1 + usize::from(packed.increments.is_some());
        let parsed = replies.chunks(width).map(|replies| {
            let text = Vec::<u8>::from_redis_value(replies[0].clone()?)?;
            let increments = match replies.get(1) {
                Some(reply) => BTreeMap::from_redis_value(reply.clone()?)?,
                None => BTreeMap::new(),
            };
            Ok((text, increments))
        });
        Ok(parsed.collect())
    }

    async fn pipeline<T: FromRedisValue>(
        &mut self,
        mut commands: redis::Pipeline,
    ) -> Result<Vec<Result<T, RedisError>>, Stopped> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        commands.ignore_errors();
        let replies = commands.query_async(&mut self.commands).await;
        replies.map_err(source_error)
    }
}

fn is_wrong_type(error: &RedisError) -> bool {
    error.code() == Some("WRONGTYPE")
}
