//! Options of imports of authors.

use super::common::{CommonArgs, FormatArg, VerifyArg};
use crate::cli::output::Output;
use clap::{Args, ValueEnum};
use countd::domain::config::Config;
use countd::domain::ids::Name;
use countd::maintenance::import::{Import, Kind, Mode};
use std::path::PathBuf;

/// Options of imports of authors.
#[derive(Debug, Args)]
pub struct AuthorsArgs {
    /// Name of the import; a command with the same name continues it
    #[arg(long, value_name = "NAME")]
    job: Name,
    /// File to import
    file: PathBuf,
    /// Format of the file; by default according to its name: .csv, .ndjson or .jsonl
    #[arg(long, value_enum)]
    format: Option<FormatArg>,
    /// Entity type of records without one
    #[arg(long, value_name = "NAME")]
    etype: Option<Name>,
    /// Number of invalid records that are reported and skipped; one more stops the import
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip_invalid: u64,
    /// Read and validate the file without importing anything
    #[arg(long)]
    dry_run: bool,
    /// Wait for the consumer while more events than this are uncounted; 0 never waits
    #[arg(long, value_name = "N", default_value_t = 500_000)]
    max_lag: u64,
    /// Whether the file is compared with countd at the end
    #[arg(long, value_enum, default_value = "exact")]
    verify: AuthorsVerify,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AuthorsVerify {
    /// Each entity must have the last author of the file
    Exact,
    /// No comparison
    None,
}

impl AuthorsArgs {
    pub(super) fn import(self, config: &Config) -> Result<Import, clap::Error> {
        let common = CommonArgs {
            job: self.job,
            file: Some(self.file),
            format: self.format,
            etype: self.etype,
            source: None,
            pattern: None,
            skip_invalid: self.skip_invalid,
            dry_run: self.dry_run,
            verify: match self.verify {
                AuthorsVerify::Exact => VerifyArg::Exact,
                AuthorsVerify::None => VerifyArg::None,
            },
            output: self.output,
        };
        let defaults = common.defaults(None, &[]);
        let source = common.source(config, Kind::Authors, defaults, None)?;
        Ok(Import {
            max_lag: self.max_lag,
            ..common.import(source, Kind::Authors, Mode::Set, "")
        })
    }
}
