//! The arguments of the command line.

use super::import::ImportCommand;
use super::output::Output;
use super::size::SizeCommand;
use super::top::TopCommand;
use clap::{Args, Parser, Subcommand, ValueEnum};
use countd::domain::ids::Name;
use countd::domain::keys::Partition;
use countd::log::reset::Uncounted;
use std::path::PathBuf;

/// The counting service around the CountInt module for Redis
///
/// Without a command, countd serves the HTTP API and consumes the event log until it receives SIGTERM or SIGINT. It then finishes the
/// requests and batches in progress and exits.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "`countd defaults` prints all settings with their descriptions.\n\nExit status: 0 on success, 1 on failure, 2 on invalid usage."
)]
pub struct Cli {
    /// Configuration file (TOML); defaults apply to all settings it does not contain
    #[arg(long, short, global = true, env = "COUNTD_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Format of the log on stderr
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "json",
        value_name = "FORMAT"
    )]
    pub log_format: LogFormat,
    /// Log level: error, warn, info, debug or trace; also per module, such as countd=debug
    #[arg(
        long,
        global = true,
        env = "COUNTD_LOG",
        default_value = "info",
        value_name = "LEVEL"
    )]
    pub log: String,
    /// The command; `all` by default
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line
    Json,
    /// Plain text
    Text,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the HTTP API and consume the event log
    All,
    /// Serve the HTTP API only
    Serve,
    /// Consume the event log only; all consumers share its partitions
    Consume,
    /// Append the events of an outbox table in PostgreSQL, MySQL or MariaDB to the log, until SIGTERM or SIGINT
    ///
    /// The section [relay] of the configuration names the database and the table. Each event counts exactly once, and any number of relays
    /// may run. Rows that cannot be counted are set aside with the reason.
    Relay,
    /// Keep facts and counters in tables of PostgreSQL, MySQL or MariaDB, until SIGTERM or SIGINT
    ///
    /// The section [sink] of the configuration names the database and the tables. Any number of processes may run; one of them writes.
    Sink {
        /// Instead of running it, end the sink of the data: logs are not kept for it any more. Stop its processes
        /// first. A sink that is started later compares all rows
        #[arg(long)]
        end: bool,
    },
    /// Create, show, extend and migrate schemas, which assign metrics to the fields of counters
    #[command(subcommand)]
    Schema(SchemaCommand),
    /// List, retry and drop dead letters: events that could not be counted
    #[command(subcommand)]
    Dead(DeadCommand),
    /// List and reset partitions whose log or position is damaged
    #[command(subcommand)]
    Log(LogCommand),
    /// Move counters from objects to rows of tables, while clients use them
    #[command(subcommand)]
    Storage(StorageCommand),
    /// Add the facts of users that were recorded before a metric was kept for users
    #[command(subcommand)]
    Reverse(ReverseCommand),
    /// Compare the counters of once metrics with the facts, and correct them
    ///
    /// Clients can use countd meanwhile: a right counter is not changed. Consumers must run. Each correction is an entry of the audit,
    /// the stream x:audit:cntfix. Received counters of users are compared by a sweep over the authors of all entities, which corrects
    /// those of all users.
    ///
    /// Exit status: 0 if no counter differs any more, 3 if some do (with --dry-run, or below the thresholds of [reconcile]).
    Reconcile(ReconcileCommand),
    /// Compute counters again from the event archive and the log, and correct those that differ
    ///
    /// Clients can use countd meanwhile, and consumers must run. If the command is interrupted, run it again: it continues. Counters that
    /// count facts are not part of it: see `reconcile`. Each correction is an entry of the audit, the stream x:audit:cntfix.
    ///
    /// Exit status: 0 if no counter differs any more, 3 if some do (with --dry-run).
    Rebuild(RebuildCommand),
    /// List, check, prune and end the event archive, and take baselines
    #[command(subcommand)]
    Archive(ArchiveCommand),
    /// Bring data from a snapshot of Redis up to date with the event archive
    ///
    /// Start Redis with the snapshot, and no other process of countd. If the command is interrupted, run it again: it continues. Until it is
    /// done, countd refuses to start with this data.
    Restore {
        /// Directory of the archive; log.archive.dir by default
        #[arg(long, value_name = "DIR")]
        archive: Option<PathBuf>,
        #[command(flatten)]
        output: Output,
    },
    /// Import facts and counts from files, or from the keys of a live Redis
    #[command(subcommand)]
    Import(Box<ImportCommand>),
    /// Check the configuration, the server, its permissions, the schemas, the partitions and the tables of the relay and the sink
    Check {
        /// Print a JSON object for each finding: `severity` (ok, note or problem), `text`, and `repair` if a command repairs it
        #[arg(long)]
        json: bool,
    },
    /// The same as `check`, with the command that repairs each finding
    Doctor {
        /// See `check`
        #[arg(long)]
        json: bool,
    },
    /// Show rates, lag, hot entities, consumers, corrections and the nodes of Redis, live
    ///
    /// Keys: q quits, p pauses, Tab chooses a table, left and right the column that orders it, up and down the direction.
    Top(TopCommand),
    /// Print `ACL SETUSER` commands for Redis users with exactly the permissions that countd requires
    ///
    /// Prints one command for each role: `NAME-serve` for `countd serve`, `NAME-consume` for `countd consume`, `NAME-relay` for `countd
    /// relay`, `NAME-sink` for `countd sink`, and `NAME` for `countd` with all its commands. The permissions depend on the configuration and on the server. Replace PASSWORD before use.
    Acl {
        /// Name of the user
        #[arg(long, value_name = "NAME", default_value = "countd")]
        user: Name,
    },
    /// Compute how many machines a load needs, how long requests take, and what breaks first
    ///
    /// From the measured figures of the benchmarks, with a queueing model. It needs neither a configuration nor a server. Numbers may end with
    /// k, M, B or T.
    Size(Box<SizeCommand>),
    /// Print the default configuration with a description of each setting
    Defaults,
    /// Print a completion script
    ///
    /// For bash: `countd completions bash > /etc/bash_completion.d/countd`
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages: countd(1), and a page for each command
    Man {
        /// Directory for the pages, such as /usr/local/share/man/man1; created if it is missing
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

impl Command {
    /// How the command prints its report, and why it failed.
    pub fn output(&self) -> Output {
        match self {
            Command::Dead(DeadCommand::Retry { output, .. } | DeadCommand::Drop { output, .. })
            | Command::Storage(
                StorageCommand::Migrate { output, .. } | StorageCommand::Adopt { output, .. },
            )
            | Command::Reverse(ReverseCommand::Backfill { output, .. })
            | Command::Reconcile(ReconcileCommand { output, .. })
            | Command::Rebuild(RebuildCommand { output, .. })
            | Command::Restore { output, .. }
            | Command::Archive(
                ArchiveCommand::List { output, .. }
                | ArchiveCommand::Verify { output, .. }
                | ArchiveCommand::Baseline { output, .. }
                | ArchiveCommand::Prune { output, .. },
            ) => *output,
            Command::Import(command) => command.output(),
            Command::Schema(SchemaCommand::Migrate(command)) => command.output,
            Command::Check { json } | Command::Doctor { json } => Output { json: *json },
            _ => Output::default(),
        }
    }
}

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
    },
    /// Print the names of a schema, in order
    Get {
        /// ID of the schema
        id: Name,
    },
    /// Print all schemas
    List,
    /// Append metrics to a schema; their counters start at 0
    Extend {
        /// ID of the schema
        id: Name,
        /// Metrics to append, in the order of their fields
        #[arg(required = true)]
        names: Vec<Name>,
    },
    /// Migrate the entity types with a schema to another schema, or show and take back such a migration
    ///
    /// Clients can use countd meanwhile, and every count stays exact. Both schemas must exist. Counters with the same name stay the same
    /// counter; those that only the old schema has are dropped, and those that only the new one has are added. The first run takes the
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
    List,
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
    List,
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
    AcceptLoss,
    /// Archive nothing any more: logs are trimmed without it. Stop all consumers first
    End,
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
    /// Directory of the archive; log.archive.dir by default
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
#[group(required = true, multiple = false)]
pub struct Selection {
    /// Select all dead letters
    #[arg(long)]
    pub all: bool,
    /// IDs of dead letters (see `dead list`)
    pub ids: Vec<String>,
}

impl Selection {
    /// Whether the dead letter with this ID is selected.
    pub fn includes(&self, id: &str) -> bool {
        self.all || self.ids.iter().any(|selected| selected == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_selection_is_required() {
        assert!(Cli::try_parse_from(["countd", "dead", "drop"]).is_err());
        assert!(Cli::try_parse_from(["countd", "dead", "drop", "--all", "1-0"]).is_err());
        assert!(Cli::try_parse_from(["countd", "dead", "drop", "1-0", "2-0"]).is_ok());
    }

    #[test]
    fn a_migration_has_one_goal() {
        let parse = |options: &[&str]| {
            let words = ["countd", "schema", "migrate", "v1", "v2"];
            Cli::try_parse_from(words.iter().chain(options)).is_ok()
        };
        assert!(parse(&["--map", "a=b", "--map", "c=d"]) && parse(&["--percent", "0"]));
        for options in [
            &["--done", "--rollback"][..],
            &["--percent", "101"],
            &["--map", "a"],
            &["--map", "a=b:c"],
            &["--sample", "0"],
        ] {
            assert!(!parse(options), "{options:?}");
        }
    }

    #[test]
    fn a_schema_requires_valid_names() {
        assert!(Cli::try_parse_from(["countd", "schema", "set", "v1"]).is_err());
        assert!(Cli::try_parse_from(["countd", "schema", "set", "v1", "a:b"]).is_err());
    }
}
