//! The commands that read the fields of counters, and their replies.

use super::field_values::{FIELD_BYTES, Fields, Kind};
use crate::domain::error::StoreError;
use crate::domain::keys::CounterLocation;
use crate::redis::permissions::Permissions;
use crate::redis::script::CounterBackend;
use crate::redis::store::Store;
use hashbrown::HashMap;
use redis::{Cmd, FromRedisValue, Value};

/// About the length of a key, and of the ID of its row.
const KEY_BYTES: usize = 40;

/// The commands that read counters of the module's types.
const MODULE_PERMISSIONS: &[&str] = &["CINT.MREAD 1 {counters}", "CTAB.PAGE 1 1 {tables} 0"];
/// The commands that read counters of Strings.
const STRINGS_PERMISSIONS: &[&str] = &["GETRANGE {counters} 0 4"];

/// The permissions that reading counters requires.
pub fn required_permissions(backend: CounterBackend) -> Permissions {
    let mut commands = Vec::new();
    if backend.has_tables() {
        commands.extend(MODULE_PERMISSIONS);
    }
    if backend.has_strings() {
        commands.extend(STRINGS_PERMISSIONS);
    }
    Permissions::of_commands(&commands)
}

/// Counters to read.
#[derive(Clone)]
pub struct CountersToRead {
    /// Where they are.
    pub at: CounterLocation,
    /// The number of fields to read.
    pub len: usize,
    /// The minimum number of fields of an object; 0 if it does not matter.
    pub min_len: usize,
}

/// A command that reads the fields of one or several counters.
pub(super) struct ReadCommand {
    pub cmd: Cmd,
    /// The number of fields of each.
    len: usize,
    /// The indexes of the counters that it reads.
    pub indexes: Vec<usize>,
    /// What is read.
    kind: Kind,
}

/// The commands that read the counters with these indexes.
pub(super) fn read_commands(
    (store, form): (&Store, Form),
    counters: &[CountersToRead],
    indexes: &[usize],
) -> Vec<ReadCommand> {
    let mut groups: Vec<(Group<'_>, Vec<usize>)> = Vec::new();
    let mut by_group: HashMap<Group<'_>, usize> = HashMap::new();
    for index in indexes {
        let group = Group::of((store, form), &counters[*index], *index);
        // On one server, usually all counters have one group.
        let at = match groups.last() {
            Some((last, _)) if *last == group => groups.len() - 1,
            Some(_) => {
                if by_group.is_empty() {
                    by_group.insert(groups[0].0, 0);
                }
                *by_group.entry(group).or_insert_with(|| {
                    groups.push((group, Vec::new()));
                    groups.len() - 1
                })
            }
            None => {
                groups.push((group, Vec::with_capacity(indexes.len())));
                0
            }
        };
        groups[at].1.push(*index);
    }
    let commands = groups.into_iter();
    commands
        .map(|(group, indexes)| group.command(counters, indexes))
        .collect()
}

/// The form of counters that have a key of their own.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// Objects of the module.
    Objects,
    /// Strings.
    Strings,
}

impl Form {
    /// The form in which counters are read first.
    pub fn of(backend: CounterBackend) -> Form {
        match backend.has_strings() {
            true => Form::Strings,
            false => Form::Objects,
        }
    }
}

/// What the counters that one command reads have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Group<'a> {
    /// One String. The index keeps Strings apart.
    String { index: usize },
    /// Objects of a length and, in a cluster, of a slot.
    Objects { len: usize, tag: Option<&'a str> },
    /// Rows of a length and, in a cluster, of a slot.
    Rows { len: usize, tag: Option<&'a str> },
}

impl<'a> Group<'a> {
    fn of((store, form): (&Store, Form), counters: &'a CountersToRead, index: usize) -> Group<'a> {
        let len = counters.len;
        // An empty string instead of none is slow to compare: with AVX-512, memcmp of no bytes reads an invalid address under a mask of
        // zeros, which took a tenth of the time of a page.
        let is_tagged = store.keys().tagged();
        let tag = is_tagged.then(|| hash_tag(counters.at.key()));
        match &counters.at {
            CounterLocation::Row { .. } => Group::Rows { len, tag },
            // Counters that a migration moves are read as objects and as rows.
            CounterLocation::Object { .. } | CounterLocation::Either(_) => match form {
                Form::Objects => Group::Objects { len, tag },
                Form::Strings => Group::String { index },
            },
        }
    }

    fn command(self, counters: &[CountersToRead], indexes: Vec<usize>) -> ReadCommand {
        let locations = indexes.iter().map(|index| &counters[*index].at);
        let mut cmd;
        let len = match self {
            Group::String { index } => {
                let len = counters[index].len;
                cmd = redis::cmd("GETRANGE");
                cmd.arg(counters[index].at.key());
                cmd.arg(0).arg(len * FIELD_BYTES - 1);
                len
            }
            Group::Objects { len, .. } => {
                cmd = Cmd::with_capacity(2 + indexes.len(), KEY_BYTES * indexes.len());
                cmd.arg("CINT.MREAD").arg(len);
                for at in locations {
                    cmd.arg(at.key());
                }
                len
            }
            Group::Rows { len, .. } => {
                cmd = Cmd::with_capacity(3 + 2 * indexes.len(), KEY_BYTES * indexes.len());
                cmd.arg("CTAB.PAGE").arg(len).arg(indexes.len());
                for at in locations {
                    cmd.arg(at.key()).arg(at.row());
                }
                len
            }
        };
        ReadCommand {
            cmd,
            len,
            indexes,
            kind: match self {
                Group::String { .. } => Kind::String,
                Group::Objects { .. } => Kind::Objects,
                Group::Rows { .. } => Kind::Rows,
            },
        }
    }
}

/// The hash tag of a key, at its end.
pub(crate) fn hash_tag(key: &str) -> &str {
    key.rfind('{').map_or("", |open| &key[open..])
}

impl ReadCommand {
    /// Decodes a reply: unsigned big-endian 40-bit integers.
    pub fn decode(
        &self,
        reply: Value,
        counters: &[CountersToRead],
        results: &mut [Option<Result<Fields, StoreError>>],
    ) -> Result<(), StoreError> {
        let problem = || StoreError::Unexpected("counters: not a string".to_owned());
        let mut reply = Vec::<u8>::from_redis_value(reply).map_err(|_| problem())?;
        let expected = self.indexes.len() * self.len * FIELD_BYTES;
        let bytes = reply.len();
        if self.kind == Kind::String && reply.len() < expected {
            reply.resize(expected, 0);
        }
        if reply.len() != expected {
            let problem = "counters: a reply of another length";
            return Err(StoreError::Unexpected(problem.to_owned()));
        }
        let (mut fields, _) = reply.as_chunks::<FIELD_BYTES>();
        for index in &self.indexes {
            let (own, others) = fields.split_at(self.len);
            fields = others;
            let values = own
                .iter()
                .map(|[a, b, c, d, e]| u64::from_be_bytes([0, 0, 0, *a, *b, *c, *d, *e]));
            let values: Vec<u64> = values.collect();
            let read = (bytes, counters[*index].min_len);
            results[*index] = Some(Ok(Fields::new(self.kind, values, read)));
        }
        Ok(())
    }
}
