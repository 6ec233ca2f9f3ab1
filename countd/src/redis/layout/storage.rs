//! Initializes, reads and changes the stored layout.

use super::fields::{
    ARCHIVE, ARCHIVE_ID, COUNTERS, COUNTING, EPOCH, EXTERNAL, OFF, ON, RESTORING, REVERSE, SINK,
    SPLITS, STORAGE, TRUNCATED, UNDECIDED,
};
use super::form::{Authors, ReverseState, StoredLayout, Truncation};
use super::splits::SPLIT;
use crate::domain::config::{Config, Count, Storage, USER};
use crate::domain::error::ConnectError;
use crate::domain::ids::{Entity, Name};
use crate::domain::keys::{Keys, PartitionHash, StoragePhase};
use crate::domain::split::SplitState;
use crate::redis::permissions::Permissions;
use crate::redis::script::{CounterBackend, LoadedScript};
use redis::RedisError;
use redis::aio::ConnectionLike;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Initializes and reads the layout.
static INIT: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::writing(include_str!("../../lua/layout_init.lua")));

/// Records a field of the layout, and starts a new epoch.
static RECORD: LazyLock<LoadedScript> = LazyLock::new(|| {
    LoadedScript::writing(concat!(
        include_str!("../../lua/layout_epoch.lua"),
        include_str!("../../lua/layout_record.lua")
    ))
});

/// Records the state of a split entity.
static RECORD_SPLIT: LazyLock<LoadedScript> = LazyLock::new(|| {
    LoadedScript::writing(concat!(
        include_str!("../../lua/layout_epoch.lua"),
        include_str!("../../lua/layout_split.lua")
    ))
});

/// Commands that read the layout again, and record the ID of its archive.
const PERMISSIONS: &[&str] = &["HGET {layout} f", "HGETALL {layout}", "HSETNX {layout} f v"];

/// Commands of [`StoredLayout::forget_truncations`].
const FORGET_PERMISSIONS: &[&str] = &["HDEL {layout} f"];

/// The hash of new data.
const NEW_DATA: PartitionHash = PartitionHash::Murmur2;

/// What a process does with the data, which decides what it records in the layout of an empty server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It uses the configuration: the storage of its entity types is recorded.
    Use,
    /// It checks a configuration that may never be used: the storage of its entity types is not recorded.
    Check,
}

/// The permissions that [`StoredLayout::record_storage`] requires.
pub fn record_permissions() -> Permissions {
    RECORD.required_permissions()
}

/// The permissions that [`StoredLayout::forget_truncations`] requires.
pub fn forget_permissions() -> Permissions {
    Permissions::of_commands(FORGET_PERMISSIONS)
}

/// The permissions that [`StoredLayout::record_split`] requires.
pub fn split_permissions() -> Permissions {
    RECORD_SPLIT.required_permissions()
}

/// The permissions that [`StoredLayout::load_or_init`] requires.
pub fn required_permissions() -> Permissions {
    INIT.required_permissions()
        .and(Permissions::of_commands(PERMISSIONS))
}

impl StoredLayout {
    /// Records whether counted entries are archived. Returns the new epoch.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn record_archive(
        connection: &mut impl ConnectionLike,
        keys: &Keys,
        is_on: bool,
    ) -> Result<u64, RedisError> {
        StoredLayout::record_switch(connection, keys, (ARCHIVE, is_on)).await
    }

    /// Records whether a sink follows the log. Returns the new epoch.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn record_sink(
        connection: &mut impl ConnectionLike,
        keys: &Keys,
        is_on: bool,
    ) -> Result<u64, RedisError> {
        StoredLayout::record_switch(connection, keys, (SINK, is_on)).await
    }

    /// The ID that the data and its archive have. `None` if it has no archive yet.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn archive_id(
        connection: &mut impl ConnectionLike,
        keys: &Keys,
    ) -> Result<Option<String>, RedisError> {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(keys.layout()).arg(ARCHIVE_ID);
        cmd.query_async(connection).await
    }

    /// Records the ID of the archive unless the data has one. Returns the one that it has.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn init_archive_id(
        connection: &mut impl ConnectionLike,
        keys: &Keys,
        id: &str,
    ) -> Result<String, RedisError> {
        let mut cmd = redis::cmd("HSETNX");
        cmd.arg(keys.layout()).arg(ARCHIVE_ID).arg(id);
        cmd.exec_async(connection).await?;
        let recorded = StoredLayout::archive_id(connection, keys).await?;
        Ok(recorded.unwrap_or_else(|| id.to_owned()))
    }

    /// Records whether a restore is under way. Returns the new epoch.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn record_restoring(
        connection: &mut impl ConnectionLike,
        keys: &Keys,
        is_on: bool,
    ) -> Result<u64, RedisError> {
        StoredLayout::record_switch(connection, keys, (RESTORING, is_on)).await
    }

    async fn record_switch(
        connection: &mut impl ConnectionLike,
        keys: &Keys,
        (field, is_on): (&str, bool),
    ) -> Result<u64, RedisError> {
        RECORD
            .script
            .key(keys.layout())
            .arg(field)
            .arg(if is_on { ON } else { OFF })
            .arg(EPOCH)
            .invoke_async(connection)
            .await
    }

    /// Reads the layout. Initializes that of an empty server.
    ///
    /// # Errors
    /// The server is unavailable, the data has another number of partitions, a newer version created it, or a metric cannot feed the
    /// authors that the data registers.
    pub async fn load_or_init(
        connection: &mut impl ConnectionLike,
        keys: &Keys,
        (config, purpose): (&Config, Purpose),
        backend: CounterBackend,
    ) -> Result<StoredLayout, ConnectError> {
        let mut call = INIT.script.key(keys.layout());
        call.arg(keys.partitions()).arg(NEW_DATA.name());
        call.arg(backend.name()).arg(Storage::default().name());
        let fed: Vec<String> = match purpose {
            Purpose::Use => config.metrics.author_feeds().map(String::from).collect(),
            Purpose::Check => Vec::new(),
        };
        call.arg(fed.join(" "));
        call.arg(match purpose {
            Purpose::Use => {
                let reverse: Vec<&str> = config.metrics.reverse().map(Name::as_str).collect();
                reverse.join(" ")
            }
            Purpose::Check => UNDECIDED.to_owned(),
        });
        if purpose == Purpose::Use {
            for (etype, entity) in &config.entities {
                call.arg(format!("{STORAGE}{etype}"));
                call.arg(entity.storage.name());
            }
            call.arg(format!("{STORAGE}{USER}"));
            call.arg(config.users.storage.name());
        }
        let fields: HashMap<String, String> = call.invoke_async(connection).await?;
        let layout = StoredLayout::parse(&fields, keys.partitions())?;
        let uncounted = |name: &&Name| {
            let metric = config.metrics.get(name.as_str());
            metric.is_some_and(|(_, metric)| metric.count == Count::Never)
        };
        match config.metrics.of_authors().find(uncounted) {
            Some(name) if layout.authors != Authors::Event => {
                Err(ConnectError::UncountedCredit(name.clone()))
            }
            _ => Ok(layout),
        }
    }

    /// Reads the epoch of the stored layout.
    ///
    /// # Errors
    /// The server is unavailable, or a newer version wrote the epoch.
    pub async fn stored_epoch(
        connection: &mut impl ConnectionLike,
        keys: &Keys,
    ) -> Result<u64, ConnectError> {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(keys.layout()).arg(EPOCH);
        let epoch: Option<u64> = cmd.query_async(connection).await?;
        Ok(epoch.unwrap_or(0))
    }

    /// Reads the layout again. The storage of types and the reverse metrics change while processes run. `None` if all data was deleted.
    ///
    /// # Errors
    /// The server is unavailable, or a newer version changed the layout.
    pub async fn reload(
        &self,
        connection: &mut impl ConnectionLike,
        keys: &Keys,
    ) -> Result<Option<StoredLayout>, ConnectError> {
        let mut cmd = redis::cmd("HGETALL");
        cmd.arg(keys.layout());
        let fields: HashMap<String, String> = cmd.query_async(connection).await?;
        if fields.is_empty() {
            return Ok(None);
        }
        let mut layout = StoredLayout::parse(&fields, keys.partitions())?;
        layout.authors = self.authors.clone();
        Ok(Some(layout))
    }

    /// Records that an event of a metric without a fact is going to be counted, and starts a new epoch, in one step.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn record_external(
        connection: &mut impl ConnectionLike,
        keys: &Keys,
        metric: &Name,
    ) -> Result<u64, RedisError> {
        RECORD
            .script
            .key(keys.layout())
            .arg(format!("{EXTERNAL}{metric}"))
            .arg("1")
            .arg(EPOCH)
            .invoke_async(connection)
            .await
    }

    /// Records that a partition of the topic ended before a position, and starts a new epoch, in one step.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn record_truncation(
        connection: &mut impl ConnectionLike,
        keys: &Keys,
        truncation: Truncation,
    ) -> Result<u64, RedisError> {
        let Truncation {
            partition,
            end,
            position,
        } = truncation;
        RECORD
            .script
            .key(keys.layout())
            .arg(format!("{TRUNCATED}{partition}"))
            .arg(format!("{end} {position}"))
            .arg(EPOCH)
            .invoke_async(connection)
            .await
    }

    /// Forgets the partitions of a former topic that ended before a position.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn forget_truncations(
        &self,
        connection: &mut impl ConnectionLike,
        keys: &Keys,
    ) -> Result<(), RedisError> {
        let fields = self.truncations.iter();
        let fields = fields.map(|of| format!("{TRUNCATED}{}", of.partition));
        let fields: Vec<String> = fields.collect();
        if fields.is_empty() {
            return Ok(());
        }
        let mut cmd = redis::cmd("HDEL");
        cmd.arg(keys.layout()).arg(fields);
        cmd.exec_async(connection).await
    }

    /// Records how counters of facts change, and starts a new epoch, in one step. Empty while processes or uncounted events differ.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn record_counting(
        connection: &mut impl ConnectionLike,
        keys: &Keys,
        counting: &str,
    ) -> Result<u64, RedisError> {
        RECORD
            .script
            .key(keys.layout())
            .arg(COUNTING)
            .arg(counting)
            .arg(EPOCH)
            .invoke_async(connection)
            .await
    }

    /// Records whether facts of a metric are kept for users, and starts a new epoch, in one step. Returns the epoch.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn record_reverse(
        connection: &mut impl ConnectionLike,
        keys: &Keys,
        (metric, state): (&Name, ReverseState),
    ) -> Result<u64, RedisError> {
        RECORD
            .script
            .key(keys.layout())
            .arg(format!("{REVERSE}{metric}"))
            .arg(state.name())
            .arg(EPOCH)
            .invoke_async(connection)
            .await
    }

    /// Records how the data stores counters and id sets, and starts a new epoch, in one step. Returns the epoch.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn record_backend(
        connection: &mut impl ConnectionLike,
        keys: &Keys,
        backend: CounterBackend,
    ) -> Result<u64, RedisError> {
        RECORD
            .script
            .key(keys.layout())
            .arg(COUNTERS)
            .arg(backend.name())
            .arg(EPOCH)
            .invoke_async(connection)
            .await
    }

    /// Records that entities can be split. Returns the new epoch.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn record_can_split(
        connection: &mut impl ConnectionLike,
        keys: &Keys,
    ) -> Result<u64, RedisError> {
        StoredLayout::record_switch(connection, keys, (SPLITS, true)).await
    }

    /// Replaces the state of a split entity, and starts a new epoch, in one step. Returns whether the state was `before`.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn record_split(
        connection: &mut impl ConnectionLike,
        keys: &Keys,
        entity: &Entity,
        (before, after): (Option<&SplitState>, Option<&SplitState>),
    ) -> Result<bool, RedisError> {
        let Entity { etype, eid } = entity;
        let text = |state: Option<&SplitState>| state.map(SplitState::to_string);
        let epoch: u64 = RECORD_SPLIT
            .script
            .key(keys.layout())
            .arg(format!("{SPLIT}{etype}:{eid}"))
            .arg(text(before).unwrap_or_default())
            .arg(text(after).unwrap_or_default())
            .arg(EPOCH)
            .invoke_async(connection)
            .await?;
        Ok(epoch > 0)
    }

    /// Records the storage of a type, and starts a new epoch, in one step. Returns the epoch.
    ///
    /// # Errors
    /// The server is unavailable.
    pub async fn record_storage(
        connection: &mut impl ConnectionLike,
        keys: &Keys,
        (etype, phase): (&str, StoragePhase),
    ) -> Result<u64, RedisError> {
        RECORD
            .script
            .key(keys.layout())
            .arg(format!("{STORAGE}{etype}"))
            .arg(phase.name())
            .arg(EPOCH)
            .invoke_async(connection)
            .await
    }
}
