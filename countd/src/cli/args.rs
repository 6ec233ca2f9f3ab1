//! The command line.

use clap::{Args, Parser, Subcommand, ValueEnum};
use countd::domain::ids::Name;
use countd::domain::keys::Partition;
use countd::log::reset::Uncounted;
use std::path::PathBuf;

/// countd, the counting service around the CountInt module for Redis.
///
/// Without a command it serves the HTTP API and counts the event log, until SIGTERM or Ctrl-C; then it finishes the requests and
/// the batches that are under way.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "The settings, with what each means: `countd defaults`. Status: 0 all went well, 1 it did not, 2 wrong usage."
)]
pub struct Cli {
    /// The configuration (TOML); without one, the defaults
    #[arg(long, short, global = true, env = "COUNTD_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How the log on stderr looks
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "json",
        value_name = "FORMAT"
    )]
    pub log_format: LogFormat,
    /// What is logged: error, warn, info, debug or trace, also by module (countd=debug)
    #[arg(
        long,
        global = true,
        env = "COUNTD_LOG",
        default_value = "info",
        value_name = "LEVEL"
    )]
    pub log: String,
    /// What to do; both `serve` and `consume` if nothing is said
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line
    Json,
    /// For people
    Text,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the HTTP API and count the event log
    All,
    /// Serve the HTTP API only
    Serve,
    /// Count the event log only; any number of these share it
    Consume,
    /// Create, show and extend schemas: which counter of an entity is which
    #[command(subcommand)]
    Schema(SchemaCommand),
    /// Show, retry and drop what could not be counted
    #[command(subcommand)]
    Dead(DeadCommand),
    /// Show and reset partitions whose log or position is damaged
    #[command(subcommand)]
    Log(LogCommand),
    /// Check the configuration, the server, the schemas and the partitions; says what is wrong
    Check,
    /// Print `ACL SETUSER` commands for Redis users with exactly the permissions that countd requires
    ///
    /// Prints one command for each role: `NAME-serve` for `countd serve`, `NAME-consume` for `countd consume`, and `NAME` for `countd`
    /// with all its commands. The permissions depend on the configuration and on the server. Replace PASSWORD before use.
    Acl {
        /// The name of the user
        #[arg(long, value_name = "NAME", default_value = "countd")]
        user: Name,
    },
    /// Print the configuration with every setting at its default and what it means
    Defaults,
}

/// What to do with schemas.
#[derive(Debug, Subcommand)]
pub enum SchemaCommand {
    /// Create a schema; one that is there with the same names stays, with other names it is an error
    Set {
        /// Its id, such as v1
        id: Name,
        /// The counters, in their order
        #[arg(required = true)]
        names: Vec<Name>,
    },
    /// Print the names of a schema, in their order
    Get {
        /// Its id
        id: Name,
    },
    /// Print all schemas
    List,
    /// Add counters to the end of a schema; those of entities that exist begin with 0
    Extend {
        /// Its id
        id: Name,
        /// The counters to add, in their order
        #[arg(required = true)]
        names: Vec<Name>,
    },
}

/// What to do with dead letters.
#[derive(Debug, Subcommand)]
pub enum DeadCommand {
    /// Print them, one JSON object a line
    List,
    /// Put them back at the end of their log, where they are counted once (or die again)
    Retry(Which),
    /// Remove them for good
    Drop(Which),
}

/// What to do with logs.
#[derive(Debug, Subcommand)]
pub enum LogCommand {
    /// Print the partitions that cannot be counted, one JSON object a line
    List,
    /// Let a partition go on whose position does not fit its log: the log was deleted or replaced, or the position is damaged
    ///
    /// The entries of its log that were not counted are numbered anew, from a position on that was never used, and are counted
    /// once; all others are removed. Consumers and requests go on by themselves. Until then requests on the partition get a 503.
    /// A partition that is sound is left as it is.
    Reset {
        /// The partitions (see `log list`)
        #[arg(required = true)]
        partitions: Vec<Partition>,
        /// Which of the entries were not counted: `all`, which is right for a log that was deleted and has begun again; `none`;
        /// or the offset of the first (0-17 has 17)
        #[arg(long, value_name = "all|none|OFFSET")]
        uncounted: Uncounted,
        /// Only say what would be done
        #[arg(long)]
        dry_run: bool,
    },
}

/// Which of them.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Which {
    /// All of them
    #[arg(long)]
    pub all: bool,
    /// Those with these ids (see `dead list`)
    pub ids: Vec<String>,
}

impl Which {
    /// Whether it is this one.
    pub fn has(&self, id: &str) -> bool {
        self.all || self.ids.iter().any(|wanted| wanted == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn dead_letters_are_named_or_all() {
        assert!(Cli::try_parse_from(["countd", "dead", "drop"]).is_err());
        assert!(Cli::try_parse_from(["countd", "dead", "drop", "--all", "1-0"]).is_err());
        assert!(Cli::try_parse_from(["countd", "dead", "drop", "1-0", "2-0"]).is_ok());
        assert!(Cli::try_parse_from(["countd", "schema", "set", "v1"]).is_err());
        assert!(Cli::try_parse_from(["countd", "schema", "set", "v1", "a:b"]).is_err());
    }
}
