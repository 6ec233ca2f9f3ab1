//! Reads the fields of counters in one round trip to each node.

pub(crate) use super::field_commands::hash_tag;
pub use super::field_commands::{CountersToRead, required_permissions};
use super::field_commands::{Form, ReadCommand, read_commands};
use super::field_values::Fields;
use crate::domain::error::{StoreError, is_no_script};
use crate::domain::keys::CounterLocation;
use crate::redis::call::{RedisCall, scripts};
use crate::redis::store::Store;
use redis::aio::ConnectionLike;
use redis::{Cmd, RedisError, Value};

/// Reads the fields of counters, in order. A key that holds another type fails only the counters at that key.
///
/// # Errors
/// Redis is unavailable or rejects the commands.
pub async fn read_fields(
    store: &Store,
    counters: &[CountersToRead],
) -> Result<Vec<Result<Fields, StoreError>>, StoreError> {
    let page = read_page(store, counters, &[]).await?;
    Ok(page.fields)
}

/// Which servers answer.
#[derive(Clone, Copy)]
enum Servers {
    /// Also replicas, if `redis.read_from` says so.
    Any,
    /// Only primaries.
    Primaries,
}

impl Servers {
    fn connection(self, store: &Store) -> impl ConnectionLike + use<> {
        match self {
            Servers::Any => store.replica_reads(),
            Servers::Primaries => store.reads(),
        }
    }
}

/// The results of [`read_page`].
pub(crate) struct PageReplies {
    /// The fields of each of the counters.
    pub fields: Vec<Result<Fields, StoreError>>,
    /// The reply of each of the other calls. The error is that of the call.
    pub replies: Vec<Result<Value, StoreError>>,
}

/// Reads the fields of counters like [`read_fields`], and sends other read-only calls in the same pipeline.
///
/// # Errors
/// Redis is unavailable or rejects the commands that read counters.
pub(crate) async fn read_page(
    store: &Store,
    counters: &[CountersToRead],
    calls: &[RedisCall],
) -> Result<PageReplies, StoreError> {
    read_page_of((store, Servers::Primaries), counters, calls).await
}

/// [`read_page`], which may be as old as `redis.max_staleness_ms`.
///
/// # Errors
/// See [`read_page`].
pub(super) async fn read_replica_page(
    store: &Store,
    counters: &[CountersToRead],
    calls: &[RedisCall],
) -> Result<PageReplies, StoreError> {
    read_page_of((store, Servers::Any), counters, calls).await
}

async fn read_page_of(
    (store, servers): (&Store, Servers),
    counters: &[CountersToRead],
    calls: &[RedisCall],
) -> Result<PageReplies, StoreError> {
    match counters
        .iter()
        .any(|counters| counters.at.moving().is_some())
    {
        // The row must not be older than the object.
        true => read_moving(store, counters, calls).await,
        false => read_settled((store, servers), counters, calls).await,
    }
}

/// [`read_page`] while a migration moves some of the counters. Counters are in the object or in the row, and move only from the object
/// to the row. The fields of the object are therefore valid if any of them is not 0. Otherwise those of the row are valid if the row was
/// read after the object. The order of the replies of several nodes is unknown, so rows of zeros are read once more.
async fn read_moving(
    store: &Store,
    counters: &[CountersToRead],
    calls: &[RedisCall],
) -> Result<PageReplies, StoreError> {
    let mut both = Vec::with_capacity(2 * counters.len());
    let mut rows = Vec::new();
    for (index, CountersToRead { at, len, .. }) in counters.iter().enumerate() {
        let (len, at, min_len) = (*len, at.clone(), 0);
        match at {
            CounterLocation::Either(moving) => {
                rows.push((index, moving.table, moving.id));
                let at = CounterLocation::Object { key: moving.object };
                both.push(CountersToRead { at, len, min_len });
            }
            at => both.push(CountersToRead { at, len, min_len }),
        }
    }
    let row = |(index, table, id): &(usize, String, u64)| CountersToRead {
        at: CounterLocation::Row {
            table: table.clone(),
            id: *id,
        },
        len: counters[*index].len,
        min_len: 0,
    };
    both.extend(rows.iter().map(row));
    let from = (store, Servers::Primaries);
    let read = read_settled(from, &both, calls).await?;
    let mut results = read.fields;
    let in_rows = results.split_off(counters.len());
    let mut again = Vec::new();
    for (of, in_row) in rows.into_iter().zip(in_rows) {
        if results[of.0].as_ref().is_ok_and(has_count) || results[of.0].is_err() {
            continue;
        }
        if in_row.as_ref().is_ok_and(|fields| !has_count(fields)) {
            again.push(of);
        } else {
            results[of.0] = in_row;
        }
    }
    let zeros: Vec<CountersToRead> = again.iter().map(row).collect();
    let found = read_settled(from, &zeros, &[]).await?.fields;
    for ((index, ..), fields) in again.into_iter().zip(found) {
        results[index] = fields;
    }
    Ok(PageReplies {
        fields: results,
        replies: read.replies,
    })
}

fn has_count(fields: &Fields) -> bool {
    fields.iter().any(|count| *count > 0)
}

async fn read_settled(
    (store, servers): (&Store, Servers),
    counters: &[CountersToRead],
    calls: &[RedisCall],
) -> Result<PageReplies, StoreError> {
    let all: Vec<usize> = (0..counters.len()).collect();
    let backend = store.backend();
    let form = Form::of(backend);
    let commands = read_commands((store, form), counters, &all);
    let mut results: Vec<Option<Result<Fields, StoreError>>> = Vec::new();
    results.resize_with(counters.len(), || None);
    let mut suspects = Vec::new();
    let cmds = commands.iter().map(|command| &command.cmd);
    let cmds = cmds.chain(calls.iter().map(|call| &call.cmd));
    let mut sent = send((store, servers), cmds).await?.into_iter();
    for (command, reply) in commands.iter().zip(sent.by_ref()) {
        match reply.map_err(StoreError::from) {
            Err(error @ StoreError::WrongType(_)) => match command.indexes[..] {
                [index] => results[index] = Some(Err(error)),
                _ => suspects.extend(&command.indexes),
            },
            reply => command.decode(reply?, counters, &mut results)?,
        }
    }
    // One of the keys that these commands read holds another type.
    if !suspects.is_empty() {
        let again = suspects.iter().flat_map(|index| {
            let index = std::slice::from_ref(index);
            read_commands((store, form), counters, index)
        });
        let commands: Vec<ReadCommand> = again.collect();
        let cmds = commands.iter().map(|command| &command.cmd);
        let replies = send((store, servers), cmds).await?;
        for (command, reply) in commands.iter().zip(replies) {
            match reply.map_err(StoreError::from) {
                Err(error @ StoreError::WrongType(_)) => {
                    results[command.indexes[0]] = Some(Err(error));
                }
                reply => command.decode(reply?, counters, &mut results)?,
            }
        }
    }
    if backend.is_mixed() {
        // Counters that are no Strings are objects. A key can get the other form between two reads: it is converted, or deleted and created
        // again.
        for form in [Form::Objects, Form::Strings, Form::Objects] {
            read_other_form((store, servers, form), counters, &mut results).await?;
        }
    }
    let missing = || StoreError::Unexpected("a read without a reply".to_owned());
    let fields = results.into_iter();
    Ok(PageReplies {
        fields: fields
            .map(|result| result.unwrap_or_else(|| Err(missing())))
            .collect(),
        replies: resend_without_script(store, calls, sent.collect()).await?,
    })
}

/// Reads the counters again whose keys hold another type than that of the form in which they were read.
async fn read_other_form(
    (store, servers, form): (&Store, Servers, Form),
    counters: &[CountersToRead],
    results: &mut [Option<Result<Fields, StoreError>>],
) -> Result<(), StoreError> {
    let is_other = |result: &Option<_>| matches!(result, Some(Err(StoreError::WrongType(_))));
    let all = (0..counters.len()).filter(|index| is_other(&results[*index]));
    let commands: Vec<ReadCommand> = all
        .flat_map(|index| read_commands((store, form), counters, &[index]))
        .collect();
    let cmds = commands.iter().map(|command| &command.cmd);
    let replies = send((store, servers), cmds).await?;
    for (command, reply) in commands.iter().zip(replies) {
        match reply.map_err(StoreError::from) {
            Err(StoreError::WrongType(_)) => {}
            reply => command.decode(reply?, counters, results)?,
        }
    }
    Ok(())
}

/// Sends the calls again whose scripts were not loaded, because the server was restarted or its script cache was flushed.
async fn resend_without_script(
    store: &Store,
    calls: &[RedisCall],
    mut replies: Vec<Result<Value, RedisError>>,
) -> Result<Vec<Result<Value, StoreError>>, StoreError> {
    let is_missing = |reply: &Result<Value, RedisError>| reply.as_ref().is_err_and(is_no_script);
    let missing: Vec<usize> = (0..replies.len())
        .filter(|index| is_missing(&replies[*index]))
        .collect();
    if !missing.is_empty() {
        for script in scripts(missing.iter().map(|index| &calls[*index])) {
            // Into the replicas, too. The next call finds it there.
            script.script.load_async(&mut store.replica_reads()).await?;
        }
        let cmds = missing.iter().map(|index| &calls[*index].cmd);
        let again = send((store, Servers::Primaries), cmds).await?;
        for (index, reply) in missing.into_iter().zip(again) {
            replies[index] = reply;
        }
    }
    let replies = replies.into_iter();
    Ok(replies.map(|reply| reply.map_err(Into::into)).collect())
}

/// Sends commands as one pipeline. The outer error is that of the connection.
async fn send(
    (store, servers): (&Store, Servers),
    commands: impl Iterator<Item = &Cmd>,
) -> Result<Vec<Result<Value, RedisError>>, StoreError> {
    let commands: Vec<&Cmd> = commands.collect();
    match commands[..] {
        [] => return Ok(Vec::new()),
        // A pipeline copies its commands, and its reply is an array.
        [command] => {
            return match command.query_async(&mut servers.connection(store)).await {
                // Without a code it is the error of the connection.
                Err(error) if error.code().is_none() => Err(error.into()),
                reply => Ok(vec![reply]),
            };
        }
        _ => {}
    }
    let mut pipeline = redis::pipe();
    for command in commands {
        pipeline.add_command(command.clone());
    }
    pipeline.ignore_errors();
    Ok(pipeline.query_async(&mut servers.connection(store)).await?)
}
