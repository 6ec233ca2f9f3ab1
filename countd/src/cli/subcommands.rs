//! The arguments of commands that have several, or subcommands.

use super::output::Output;
use clap::{Args, Subcommand, ValueEnum};
use countd::domain::ids::{Entity, Id, Name};
use countd::domain::keys::Partition;
use countd::log::dead_letters::StoredDeadLetter;
use countd::log::reset::Uncounted;
use std::path::PathBuf;

/// The commands on schemas.
#[derive(Debug, Subcommand)]
pub enum SchemaCommand {
    /// Create a schema; fails if it exists with other names
    Set {
        /// ID of the schema, such as v1
        id: Name,
        /// Metrics, in the order of their fields
        #[arg(required = true)]
        names: Vec<Name>,
        #[command(flatten)]
        output: Output,
    },
    /// Print the names of a schema, in order
    Get {
        /// ID of the schema
        id: Name,
        #[command(flatten)]
        output: Output,
    },
    /// Print all schemas
    List {
        #[command(flatten)]
        output: Output,
    },
    /// Append metrics to a schema; their counters start at 0
    Extend {
        /// ID of the schema
        id: Name,
        /// Metrics to append, in the order of their fields
        #[arg(required = true)]
        names: Vec<Name>,
        #[command(flatten)]
        output: Output,
    },
    /// Migrate the entity types with a schema to another schema, or show and take back such a migration
    ///
    /// Clients can use countd meanwhile, and every count stays exact. Both schemas must exist. Counters with the same name stay the same
    /// counter; counters missing in the new schema are dropped, and counters missing in the old one are added. The first run takes the
    /// migration to the stage in which reads can switch; later runs switch reads by percent of the entities, and end the migration. If
    /// the command is interrupted, run it again: it continues. All processes must be of this version first.
    Migrate(SchemaMigrateCommand),
}

/// The arguments of `countd schema migrate`.
#[derive(Debug, Args)]
pub struct SchemaMigrateCommand {
    /// ID of the old schema
    pub from: Name,
    /// ID of the new schema
    pub to: Name,
    /// A counter that the new schema names differently; can be repeated
    #[arg(long, value_name = "OLD=NEW", value_parser = renamed)]
    pub map: Vec<(Name, Name)>,
    /// Switch reads of this percentage of the entities to the new schema; fewer than before switches reads back
    #[arg(long, value_name = "0-100", value_parser = clap::value_parser!(u8).range(0..=100), group = "goal")]
    pub percent: Option<u8>,
    /// End the migration: clients have only the counters of the new schema
    #[arg(long, group = "goal")]
    pub done: bool,
    /// Return to the old schema, from any stage
    #[arg(long, group = "goal")]
    pub rollback: bool,
    /// Show the stage
    #[arg(long, group = "goal")]
    pub status: bool,
    /// Number of entities whose counters are compared with their facts before more reads switch
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = sample_size)]
    pub sample: usize,
    #[command(flatten)]
    pub output: Output,
}

/// Parses `OLD=NEW`.
fn renamed(text: &str) -> Result<(Name, Name), String> {
    let (old, new) = text.split_once('=').ok_or("must be OLD=NEW")?;
    let name = |text: &str| Name::new(text).map_err(|error| format!("{text}: {error}"));
    Ok((name(old)?, name(new)?))
}

fn sample_size(text: &str) -> Result<usize, String> {
    let size = text
        .parse()
        .ok()
        .filter(|size| (1..=10_000_000).contains(size));
    size.ok_or_else(|| "must be 1 to 10000000".to_owned())
}

/// The commands on dead letters.
#[derive(Debug, Subcommand)]
pub enum DeadCommand {
    /// Print all dead letters, one JSON object per line
    List {
        /// Print an error as JSON, too
        #[arg(long)]
        json: bool,
    },
    /// Append dead letters to their log again; each counts once, or becomes a dead letter again
    Retry {
        #[command(flatten)]
        selection: Selection,
        #[command(flatten)]
        output: Output,
    },
    /// Delete dead letters
    Drop {
        #[command(flatten)]
        selection: Selection,
        #[command(flatten)]
        output: Output,
    },
}

/// The commands on logs.
#[derive(Debug, Subcommand)]
pub enum LogCommand {
    /// Print the failed partitions, one JSON object per line
    List {
        /// Print an error as JSON, too
        #[arg(long)]
        json: bool,
    },
    /// Repair a partition whose position does not match its log
    ///
    /// Use it after a log was deleted or replaced, or a position was damaged. Uncounted entries get new offsets that were never used
    /// and are counted once; all other entries are deleted. Consumers and requests resume automatically. Until the reset, requests to
    /// the partition fail with 503. A healthy partition is not changed.
    Reset {
        /// Partitions to reset (see `log list`)
        #[arg(required = true)]
        partitions: Vec<Partition>,
        /// Entries that were not counted: `all`, if the log was deleted and has new entries; `none`; or the offset of the first one,
        /// such as 17 for the entry 0-17
        #[arg(long, value_name = "all|none|OFFSET")]
        uncounted: Uncounted,
        /// Print what would be done, without doing it
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Make the topic of the configuration that of the data
    ///
    /// Use it after the topic was created again or has got partitions, or to use another one. All processes must be stopped. Positions of
    /// the former topic are given up.
    AcceptTopic {
        /// Where counting begins: at the first records, or after the last ones
        #[arg(long, value_enum, default_value = "earliest")]
        from: TopicStart,
        /// Give up records of the former topic that are not counted
        #[arg(long)]
        lose_uncounted: bool,
        #[command(flatten)]
        output: Output,
    },
}

/// Where counting begins in a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopicStart {
    /// At the first records.
    Earliest,
    /// After the last records.
    Latest,
}

/// The commands on the event archive.
#[derive(Debug, Subcommand)]
pub enum ArchiveCommand {
    /// Print the archived offsets of each partition, and the baselines
    List {
        /// Directory of the archive; log.archive.dir by default
        #[arg(long, value_name = "DIR")]
        archive: Option<PathBuf>,
        #[command(flatten)]
        output: Output,
    },
    /// Read the whole archive, and check that nothing is damaged or missing
    Verify {
        /// Directory of the archive; log.archive.dir by default
        #[arg(long, value_name = "DIR")]
        archive: Option<PathBuf>,
        #[command(flatten)]
        output: Output,
    },
    /// Write the counters of all entities to the archive, so that a rebuild can start from there
    ///
    /// Clients can use countd meanwhile, and consumers must run.
    Baseline {
        /// Directory of the archive; log.archive.dir by default
        #[arg(long, value_name = "DIR")]
        archive: Option<PathBuf>,
        #[command(flatten)]
        output: Output,
    },
    /// Delete the oldest part of the archive
    ///
    /// Processes may write to the archive meanwhile. A restore needs a snapshot that is younger, and a rebuild a baseline that is.
    Prune {
        /// The name of a baseline (see `archive list`), from which a rebuild can start, or a date (UTC)
        #[arg(long, value_name = "BASELINE|YYYY-MM-DD")]
        before: String,
        /// Directory of the archive; log.archive.dir by default
        #[arg(long, value_name = "DIR")]
        archive: Option<PathBuf>,
        #[command(flatten)]
        output: Output,
    },
    /// Use data that is older than the archive without restoring it
    ///
    /// What only the archive has is lost: it is replaced as offsets are used again.
    AcceptLoss {
        #[command(flatten)]
        output: Output,
    },
    /// Archive nothing any more: logs are trimmed without it. Stop all consumers first
    End {
        #[command(flatten)]
        output: Output,
    },
}

/// The commands on the storage of counters.
#[derive(Debug, Subcommand)]
pub enum StorageCommand {
    /// Move the counters of a type from objects to rows of tables
    ///
    /// Counters of IDs that are unsigned 64-bit integers move; others stay objects. Clients can use countd meanwhile, and every count
    /// stays exact. If the command is interrupted, run it again: it continues. All processes must be of this version first.
    Migrate {
        /// Entity type, or `user` for the counters of users
        etype: Name,
        /// Seconds to wait, after all processes follow a change, for commands that are under way
        ///
        /// It must be longer than a process can be suspended and still send a command: at least http.timeout_ms and
        /// redis.response_timeout_ms together.
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        grace: u64,
        /// Leave damaged objects as they are; their counters start at 0
        #[arg(long)]
        skip_damaged: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Convert data that was created without the module to the module's types
    ///
    /// Load the module on every server first, also on replicas, and give the Redis user the permissions that `countd acl` prints. Clients
    /// can use countd meanwhile, and every count stays exact. If the command is interrupted, run it again: it continues. All processes must
    /// be of this version first.
    Adopt {
        /// Seconds to wait, after all processes follow a change, for commands that are under way
        ///
        /// It must be longer than a process can be suspended and still send a command: at least http.timeout_ms and
        /// redis.response_timeout_ms together.
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        grace: u64,
        /// Leave damaged keys as they are; their counters start at 0
        #[arg(long)]
        skip_damaged: bool,
        /// Do not ask replicas whether they have the module
        ///
        /// For replicas that this machine cannot reach. A replica without the module would not execute what its primary does.
        #[arg(long)]
        skip_replicas: bool,
        #[command(flatten)]
        output: Output,
    },
}

/// The commands on hot entities.
#[derive(Debug, Subcommand)]
pub enum HotCommand {
    /// Split an entity into shards, each in a partition of its own
    ///
    /// Facts that users add from then on, and their counts, are spread over the shards; clients notice nothing of it. Clients can use countd
    /// meanwhile, and consumers must run. If the command is interrupted, run it again, or let a consumer finish it. All processes must be of
    /// this version first.
    Split {
        /// The entity, such as note:7
        #[arg(value_name = "TYPE:ID", value_parser = entity)]
        entity: Entity,
        /// Number of shards
        #[arg(long, value_name = "2-64", default_value_t = 16)]
        shards: u16,
        /// Seconds to wait, after all processes follow the change, for requests that are under way
        ///
        /// It must be longer than a process can be suspended and still answer a request: at least http.timeout_ms and
        /// redis.response_timeout_ms together, and 30 seconds. At least 3 seconds are waited.
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        grace: u64,
        #[command(flatten)]
        output: Output,
    },
    /// Merge the shards of an entity that is not hot any more
    ///
    /// Until it is done, actions on the metrics that are split get 503 with Retry-After; reads go on. Consumers must run. If the command is
    /// interrupted, run it again, or let a consumer finish it.
    Merge {
        /// The entity, such as note:7
        #[arg(value_name = "TYPE:ID", value_parser = entity)]
        entity: Entity,
        #[command(flatten)]
        output: Output,
    },
    /// List the split entities
    List {
        #[command(flatten)]
        output: Output,
    },
}

/// Parses `TYPE:ID`.
fn entity(text: &str) -> Result<Entity, String> {
    let (etype, eid) = text.split_once(':').ok_or("must be TYPE:ID")?;
    Ok(Entity {
        etype: Name::new(etype).map_err(|error| format!("{etype}: {error}"))?,
        eid: Id::new(eid).map_err(|error| format!("{eid}: {error}"))?,
    })
}

/// The commands on the facts of users.
#[derive(Debug, Subcommand)]
pub enum ReverseCommand {
    /// Add the existing facts of a metric that got `reverse = true` later
    ///
    /// Clients can use countd meanwhile; the facts of users can be read when it is done. If the command is interrupted, run it again. All
    /// processes must be of this version first, and consumers must run. Do not move slots of a cluster meanwhile.
    Backfill {
        /// Name of the metric
        metric: Name,
        /// Seconds to wait, after all processes follow the change, for processes that were suspended
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        grace: u64,
        #[command(flatten)]
        output: Output,
    },
}

/// The arguments of `countd reconcile`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("scope").required(true).args(["all", "entity", "user"])))]
pub struct ReconcileCommand {
    /// Compare the counters of all entities and users
    #[arg(long)]
    pub all: bool,
    /// Compare the counters of one entity
    #[arg(long, num_args = 2, value_names = ["ETYPE", "EID"])]
    pub entity: Vec<String>,
    /// Compare the counters of one user: followers, followings, posts and received counters
    #[arg(long, value_name = "UID")]
    pub user: Option<String>,
    /// Correct every difference, also below the thresholds
    #[arg(long, conflicts_with = "dry_run")]
    pub exact: bool,
    /// Report differences without correcting them
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub output: Output,
}

/// The arguments of `countd rebuild`.
#[derive(Debug, Args)]
pub struct RebuildCommand {
    /// Where to start: `earliest`, or the name of a baseline (see `archive list`)
    #[arg(long, value_name = "earliest|BASELINE")]
    pub from: String,
    /// Directory of the archive, or with log.kind = "kafka" of the baseline; log.archive.dir by default
    #[arg(long, value_name = "DIR")]
    pub archive: Option<PathBuf>,
    /// Report differences without correcting them
    #[arg(long)]
    pub dry_run: bool,
    /// Discard an earlier rebuild that was interrupted
    #[arg(long)]
    pub restart: bool,
    #[command(flatten)]
    pub output: Output,
}

/// A selection of dead letters.
#[derive(Debug, Args)]
pub struct Selection {
    /// Select all dead letters
    #[arg(long, conflicts_with_all = ["ids", "partition"])]
    pub all: bool,
    /// IDs of dead letters (see `dead list`)
    #[arg(required_unless_present = "all")]
    pub ids: Vec<String>,
    /// The partition of the dead letters. In a cluster, where each partition has a stream of its own, several may have the same ID
    #[arg(long)]
    pub partition: Option<Partition>,
}

impl Selection {
    /// Whether a dead letter has one of the IDs, and is of the partition if there is one.
    pub fn names(&self, dead_letter: &StoredDeadLetter) -> bool {
        let is_there = self.partition.is_none_or(|of| of == dead_letter.partition);
        is_there && self.ids.contains(&dead_letter.id)
    }
}
