//! What all imports have in common.

use crate::cli::output::Output;
use clap::error::ErrorKind;
use clap::{Args, ValueEnum};
use countd::domain::config::Config;
use countd::domain::ids::Name;
use countd::maintenance::import::{
    Agreement, Defaults, FileSource, Format, Import, KeyPattern, Kind, LiveSource, Mode, Shape,
    Source,
};
use std::path::PathBuf;

/// Options of all imports.
#[derive(Debug, Args)]
pub(super) struct CommonArgs {
    /// Name of the import; a command with the same name continues it
    #[arg(long, value_name = "NAME")]
    pub(super) job: Name,
    /// File to import
    #[arg(required_unless_present = "from", conflicts_with = "from")]
    pub(super) file: Option<PathBuf>,
    /// Format of the file; by default according to its name: .csv, .ndjson or .jsonl
    #[arg(long, value_enum, conflicts_with = "from")]
    pub(super) format: Option<FormatArg>,
    /// Entity type of records without one; required with --from
    #[arg(long, value_name = "NAME")]
    pub(super) etype: Option<Name>,
    /// URL of the Redis that --from reads; by default that of the configuration
    #[arg(long, value_name = "URL")]
    pub(super) source: Option<String>,
    /// Keys of the source, with {id} in the place of the entity's ID, such as praised_by:{id}
    #[arg(long, value_name = "KEY")]
    pub(super) pattern: Option<KeyPattern>,
    /// Number of invalid records that are reported and skipped; one more stops the import
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) skip_invalid: u64,
    /// Read and validate the source without importing anything
    #[arg(long)]
    pub(super) dry_run: bool,
    /// How the source is compared with countd at the end; `minimum` permits greater counters, where the service is in use or counters
    /// had values before
    #[arg(long, value_enum, default_value = "exact")]
    pub(super) verify: VerifyArg,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FormatArg {
    /// One JSON object per line
    Ndjson,
    /// CSV with a header
    Csv,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum VerifyArg {
    /// Counters must equal the source
    Exact,
    /// Counters must be at least those of the source
    Minimum,
    /// No comparison
    None,
}

/// A usage error.
pub(super) fn usage<T>(problem: &str) -> Result<T, clap::Error> {
    Err(clap::Error::raw(
        ErrorKind::MissingRequiredArgument,
        format!("{problem}\n"),
    ))
}

/// Checks that an option is not given with a file. The parser does not require an option that conflicts with the file.
pub(super) fn live_only(option: &str, is_given: bool) -> Result<(), clap::Error> {
    match is_given {
        true => usage(&format!("{option} requires --from")),
        false => Ok(()),
    }
}

pub(super) fn required<T: Clone>(option: &str, value: &Option<T>) -> Result<T, clap::Error> {
    match value {
        Some(value) => Ok(value.clone()),
        None => usage(&format!("--from requires {option}")),
    }
}

impl CommonArgs {
    pub(super) fn defaults(&self, metric: Option<&Name>, ignored: &[String]) -> Defaults {
        Defaults {
            metric: metric.cloned(),
            etype: self.etype.clone(),
            ignored: ignored.to_vec(),
        }
    }

    /// The source: the file, or the keys of a shape.
    pub(super) fn source(
        &self,
        config: &Config,
        kind: Kind,
        defaults: Defaults,
        shape: Option<Shape>,
    ) -> Result<Source, clap::Error> {
        match (&self.file, shape) {
            (Some(path), None) => {
                live_only("--source", self.source.is_some())?;
                live_only("--pattern", self.pattern.is_some())?;
                let extension = path.extension().map(|name| name.to_ascii_lowercase());
                let format = match (self.format, extension.as_ref().and_then(|e| e.to_str())) {
                    (Some(FormatArg::Csv), _) | (None, Some("csv")) => Format::Csv,
                    (Some(FormatArg::Ndjson), _) | (None, Some("ndjson" | "jsonl")) => {
                        Format::Ndjson
                    }
                    (None, _) => return usage("--format: required for a file of this name"),
                };
                let path = path.clone();
                Ok(Source::File(FileSource {
                    path,
                    format,
                    kind,
                    defaults,
                }))
            }
            (None, Some(shape)) => Ok(Source::Live(Box::new(LiveSource {
                redis: match &self.source {
                    Some(url) => config.redis.at(url),
                    None => config.redis.clone(),
                },
                shape,
                etype: required("--etype", &self.etype)?,
            }))),
            _ => usage("a file or --from is required"),
        }
    }

    pub(super) fn import(&self, source: Source, kind: Kind, mode: Mode, more: &str) -> Import {
        let form = match &source {
            Source::File(file) => format!("{:?}", file.format).to_lowercase(),
            Source::Live(_) => "live".to_owned(),
        };
        let kind_name = format!("{kind:?}").to_lowercase();
        let mut options = vec![kind_name, form];
        options.extend(self.etype.as_ref().map(|etype| format!("etype={etype}")));
        options.extend(self.pattern.as_ref().map(|key| format!("pattern={key}")));
        options.extend((!more.is_empty()).then(|| more.to_owned()));
        Import {
            name: self.job.clone(),
            kind,
            mode,
            source,
            options: options.join(" "),
            skip_invalid: self.skip_invalid,
            max_lag: 0,
            verify: match self.verify {
                VerifyArg::Exact => Some(Agreement::Exact),
                VerifyArg::Minimum => Some(Agreement::Minimum),
                VerifyArg::None => None,
            },
            dry_run: self.dry_run,
        }
    }
}
