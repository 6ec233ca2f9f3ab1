//! The author that an action names, as keys and arguments of scripts.

use crate::domain::author_feed::AuthorFeed;
use crate::domain::ids::{Entity, Id, Name};
use crate::domain::keys::{Keys, Partition};
use crate::redis::call::{IdempotencyGuard, PlacedCounters, RedisCall};
use crate::redis::day::CountedDay;
use crate::redis::permissions::Permissions;
use crate::redis::script::{AUTHOR, CounterBackend, ScriptTemplate};
use redis::Cmd;

/// Runs a command that names the author of an entity.
static ACT: ScriptTemplate =
    ScriptTemplate::writing(&[AUTHOR, include_str!("../lua/act.lua")]).with_days();

/// The author of an entity, which the step of a script registers. If the entity has another author, nothing changes.
#[derive(Clone, Debug)]
pub struct NamedAuthor {
    /// The table and the Hash of authors, and the log.
    keys: [String; 3],
    /// The type and the id of the entity, the id and the partition of the author, and the counters of authors that metrics feed.
    args: [String; 5],
}

impl NamedAuthor {
    /// The author of an entity; `None` if it has none any more. `feeds` are those of the stored layout.
    pub fn new(
        keys: Keys,
        feeds: &[AuthorFeed],
        (entity, author): (&Entity, Option<&Id>),
    ) -> NamedAuthor {
        let partition = keys.of_entity(entity);
        let [table, hash] = author_keys(keys, &entity.etype, partition);
        let feeds: Vec<String> = feeds.iter().map(AuthorFeed::to_string).collect();
        NamedAuthor {
            keys: [table, hash, keys.log(partition)],
            args: [
                entity.etype.to_string(),
                entity.eid.to_string(),
                author.map(Id::to_string).unwrap_or_default(),
                author.map_or(0, |uid| keys.of_user(uid)).to_string(),
                feeds.join(" "),
            ],
        }
    }

    /// Its keys, which follow all others.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// Adds its arguments, which follow those of the script.
    pub fn add_arguments(&self, cmd: &mut Cmd) {
        cmd.arg(&self.args);
    }

    /// A call of a command that uses these keys, and registers the author in the same step. `counters` are those of the command, if a
    /// migration moves them; `day` is that of the counter, if it has counts by day.
    pub fn call(
        &self,
        backend: CounterBackend,
        (args, keys): (&[&str], &[&str]),
        guard: Option<&IdempotencyGuard>,
        (counters, day): (Option<&PlacedCounters<'_>>, Option<&CountedDay>),
    ) -> RedisCall {
        let mut all: Vec<&str> = guard.map(|guard| guard.key.as_str()).into_iter().collect();
        all.extend(keys);
        all.extend(self.keys.iter().map(String::as_str));
        let counting = (counters, day, self.args.len() + 1);
        RedisCall::counting((&ACT, backend), &all, counting, |cmd| {
            self.add_arguments(cmd);
            let guard = guard.map(IdempotencyGuard::argument);
            cmd.arg(guard.unwrap_or_default()).arg(args);
        })
    }

    /// The permissions that [`call`](Self::call) requires, in addition to those of the command.
    pub fn required_permissions(backend: CounterBackend) -> Permissions {
        ACT.required_permissions(backend)
    }
}

/// The table and the Hash of the authors of a partition's entities of a type. Without the module scripts do not use the table.
pub fn author_keys(keys: Keys, etype: &Name, partition: Partition) -> [String; 2] {
    [
        keys.author_table(etype, partition),
        keys.author_hash(etype, partition),
    ]
}
