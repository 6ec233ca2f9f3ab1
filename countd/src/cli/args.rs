//! The arguments of the command line.

use super::import::ImportCommand;
use super::output::Output;
use super::size::SizeCommand;
pub use super::subcommands::{
    ArchiveCommand, DeadCommand, HotCommand, LogCommand, RebuildCommand, ReconcileCommand,
    ReverseCommand, SchemaCommand, SchemaMigrateCommand, StorageCommand, TopicStart,
};
use super::top::TopCommand;
use clap::{Parser, Subcommand, ValueEnum};
use countd::domain::ids::Name;
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
        /// With --end: print the report as JSON
        #[arg(long, requires = "end")]
        json: bool,
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
    /// Split hot entities into shards, merge them again, and list them, while clients use them
    #[command(subcommand)]
    Hot(HotCommand),
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
        #[command(flatten)]
        output: Output,
    },
    /// Compute how many machines a load needs, how long requests take, and what breaks first
    ///
    /// From the measured figures of the benchmarks, with a queueing model. It needs neither a configuration nor a server. Numbers may end with
    /// k, M, B or T.
    Size(Box<SizeCommand>),
    /// Print the default configuration with a description of each setting
    Defaults {
        #[command(flatten)]
        output: Output,
    },
    /// Print a completion script
    ///
    /// For bash: `countd completions bash > /etc/bash_completion.d/countd`
    Completions {
        /// The shell
        shell: clap_complete::Shell,
        #[command(flatten)]
        output: Output,
    },
    /// Write the manual pages: countd(1), and a page for each command
    Man {
        /// Directory for the pages, such as /usr/local/share/man/man1; created if it is missing
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        #[command(flatten)]
        output: Output,
    },
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
        let of_partition = ["countd", "dead", "drop", "--partition", "3"];
        let with = |more: &str| Cli::try_parse_from(of_partition.iter().chain([&more]));
        assert!(with("1-0").is_ok() && with("--all").is_err());
        assert!(Cli::try_parse_from(of_partition).is_err());
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
