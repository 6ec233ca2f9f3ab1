//! `countd import`.

use super::error::CommandError;
use clap::error::ErrorKind;
use clap::{Args, Subcommand, ValueEnum};
use countd::domain::config::Config;
use countd::domain::ids::Name;
use countd::maintenance::import::{
    Agreement, Defaults, Endian, FieldMap, FileSource, Format, Import, KeyPattern, Kind,
    LiveSource, Mode, Packed, Shape, Source, forget, run,
};
use countd::redis::store::Store;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// The commands on imports.
#[derive(Debug, Subcommand)]
pub enum ImportCommand {
    /// Import facts: which users performed a metric on which entities
    ///
    /// A file has the fields metric, etype, eid and uid, and optionally author and ts (milliseconds since 1970). Facts that exist are
    /// not changed. Counters and users' counters follow.
    Facts(FactsArgs),
    /// Import counts of repeatable metrics
    ///
    /// A file has the fields etype, eid and counts, an object of counts by metric; or a column per metric; or metric and count.
    Counts(CountsArgs),
    /// Delete the state of an import, so that its name can be used again; what it imported stays
    Forget {
        /// Name of the import
        job: Name,
    },
}

/// Options of all imports.
#[derive(Debug, Args)]
struct CommonArgs {
    /// Name of the import; a command with the same name continues it
    #[arg(long, value_name = "NAME")]
    job: Name,
    /// File to import
    #[arg(required_unless_present = "from", conflicts_with = "from")]
    file: Option<PathBuf>,
    /// Format of the file; by default according to its name: .csv, .ndjson or .jsonl
    #[arg(long, value_enum, conflicts_with = "from")]
    format: Option<FormatArg>,
    /// Entity type of records without one; required with --from
    #[arg(long, value_name = "NAME")]
    etype: Option<Name>,
    /// URL of the Redis that --from reads; by default that of the configuration
    #[arg(long, value_name = "URL")]
    source: Option<String>,
    /// Keys of the source, with {id} in the place of the entity's ID, such as praised_by:{id}
    #[arg(long, value_name = "KEY")]
    pattern: Option<KeyPattern>,
    /// Number of invalid records that are reported and skipped; one more stops the import
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip_invalid: u64,
    /// Read and validate the source without importing anything
    #[arg(long)]
    dry_run: bool,
    /// How the source is compared with countd at the end; `minimum` permits greater counters, where the service is in use or counters
    /// had values before
    #[arg(long, value_enum, default_value = "exact")]
    verify: VerifyArg,
}

/// Options of imports of facts.
#[derive(Debug, Args)]
pub struct FactsArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Metric of records without one; required with --from
    #[arg(long, value_name = "NAME")]
    metric: Option<Name>,
    /// Read the keys of a live Redis instead of a file
    #[arg(long, value_enum, value_name = "SHAPE")]
    from: Option<FactShape>,
    /// Wait for the consumer while more events than this are uncounted; 0 never waits
    #[arg(long, value_name = "N", default_value_t = 500_000)]
    max_lag: u64,
}

/// Options of imports of counts.
#[derive(Debug, Args)]
pub struct CountsArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Metric of records with `count` and without a metric
    #[arg(long, value_name = "NAME", conflicts_with = "from")]
    metric: Option<Name>,
    /// Read the keys of a live Redis instead of a file
    #[arg(long, value_enum, value_name = "SHAPE")]
    from: Option<CountShape>,
    /// Add the counts to the counters, or replace their values
    #[arg(long, value_enum, default_value = "add")]
    mode: ModeArg,
    /// Names of counts that are not imported
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    ignore: Vec<String>,
    /// Metrics of the fields (hash-per-entity) or of the keys (hash-per-counter) of the source
    #[arg(long, value_name = "NAME=METRIC", value_delimiter = ',', value_parser = pair)]
    map: Vec<(String, String)>,
    /// Metrics of the counters of a packed String, in order; - for one that is not imported
    #[arg(long, value_name = "METRIC", value_delimiter = ',')]
    fields: Vec<String>,
    /// Keys of Hashes with increments that are not yet in the packed Strings, such as agg:{id}
    #[arg(long, value_name = "KEY")]
    agg: Option<KeyPattern>,
    /// Byte order of packed Strings
    #[arg(long, value_enum, default_value = "big")]
    endian: EndianArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    /// One JSON object per line
    Ndjson,
    /// CSV with a header
    Csv,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum VerifyArg {
    /// Counters must equal the source
    Exact,
    /// Counters must be at least those of the source
    Minimum,
    /// No comparison
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeArg {
    Add,
    Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EndianArg {
    /// Most significant byte first
    Big,
    /// Least significant byte first
    Little,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FactShape {
    /// A Set of user IDs per entity
    Sets,
    /// A bitmap per entity: the offset of a bit is a user ID
    Bitmap,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CountShape {
    /// A Hash per entity: a field per counter
    HashPerEntity,
    /// A Hash per counter: the fields are entity IDs
    HashPerCounter,
    /// A String of 4-byte counters per entity
    Packed,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, metric)) if !name.is_empty() && !metric.is_empty() => {
            Ok((name.to_owned(), metric.to_owned()))
        }
        _ => Err("expected NAME=METRIC".to_owned()),
    }
}

/// A usage error.
fn usage<T>(problem: &str) -> Result<T, clap::Error> {
    Err(clap::Error::raw(
        ErrorKind::MissingRequiredArgument,
        format!("{problem}\n"),
    ))
}

/// Checks that an option is not given with a file. The parser does not require an option that conflicts with the file.
fn live_only(option: &str, is_given: bool) -> Result<(), clap::Error> {
    match is_given {
        true => usage(&format!("{option} requires --from")),
        false => Ok(()),
    }
}

fn required<T: Clone>(option: &str, value: &Option<T>) -> Result<T, clap::Error> {
    match value {
        Some(value) => Ok(value.clone()),
        None => usage(&format!("--from requires {option}")),
    }
}

/// What a command does, with valid options.
pub enum Task {
    /// Runs an import.
    Run(Box<Import>),
    /// Deletes the state of an import.
    Forget(Name),
}

impl Task {
    /// Checks the options that depend on each other.
    ///
    /// # Errors
    /// An option is missing or cannot be combined.
    pub fn new(command: ImportCommand, config: &Config) -> Result<Task, clap::Error> {
        match command {
            ImportCommand::Facts(args) => Ok(Task::Run(Box::new(args.import(config)?))),
            ImportCommand::Counts(args) => Ok(Task::Run(Box::new(args.import(config)?))),
            ImportCommand::Forget { job } => Ok(Task::Forget(job)),
        }
    }

    /// Whether the task writes nothing.
    pub fn is_dry_run(&self) -> bool {
        matches!(self, Task::Run(import) if import.dry_run)
    }

    /// Runs the task.
    ///
    /// # Errors
    /// The import failed, there are differences, or stdout cannot be written.
    pub async fn run(self, config: Arc<Config>, store: Store) -> Result<(), CommandError> {
        let import = match self {
            Task::Run(import) => import,
            Task::Forget(name) => {
                return match forget(&store, &name).await? {
                    true => Ok(writeln!(io::stdout(), "import {name} is forgotten")?),
                    false => Err(CommandError::Unsuccessful(format!(
                        "there is no import {name}"
                    ))),
                };
            }
        };
        let print = |difference: &str| println!("{difference}");
        let summary = run(config, store, &import, print).await?;
        let (records, skipped) = (summary.records, summary.skipped);
        let mut out = io::stdout().lock();
        if import.dry_run {
            writeln!(
                out,
                "valid: {} records, invalid: {skipped}",
                records - skipped
            )?;
            return Ok(());
        }
        let changed = summary.changed;
        writeln!(
            out,
            "imported: {} records ({changed} changed something now), skipped: {skipped}",
            records - skipped
        )?;
        if import.verify.is_some() {
            writeln!(
                out,
                "verified: {} records, no differences",
                summary.verified
            )?;
        }
        Ok(())
    }
}

impl CommonArgs {
    fn defaults(&self, metric: Option<&Name>, ignored: &[String]) -> Defaults {
        Defaults {
            metric: metric.cloned(),
            etype: self.etype.clone(),
            ignored: ignored.to_vec(),
        }
    }

    /// The source: the file, or the keys of a shape.
    fn source(
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
            (None, Some(shape)) => Ok(Source::Live(LiveSource {
                url: self
                    .source
                    .clone()
                    .unwrap_or_else(|| config.redis.url.clone()),
                timeout: config.redis.response_timeout(),
                shape,
                etype: required("--etype", &self.etype)?,
            })),
            _ => usage("a file or --from is required"),
        }
    }

    fn import(&self, source: Source, kind: Kind, mode: Mode, more: &str) -> Import {
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

impl FactsArgs {
    fn import(&self, config: &Config) -> Result<Import, clap::Error> {
        let common = &self.common;
        let shape = match self.from {
            None => None,
            Some(shape) => {
                let pattern = required("--pattern", &common.pattern)?;
                let metric = required("--metric", &self.metric)?;
                Some(match shape {
                    FactShape::Sets => Shape::Sets { pattern, metric },
                    FactShape::Bitmap => Shape::Bitmap { pattern, metric },
                })
            }
        };
        let mut more: Vec<String> = self.from.iter().map(|from| format!("{from:?}")).collect();
        more.extend(self.metric.iter().map(|metric| format!("metric={metric}")));
        let defaults = common.defaults(self.metric.as_ref(), &[]);
        let source = common.source(config, Kind::Facts, defaults, shape)?;
        Ok(Import {
            max_lag: self.max_lag,
            ..common.import(source, Kind::Facts, Mode::Add, &more.join(" "))
        })
    }
}

impl CountsArgs {
    fn import(&self, config: &Config) -> Result<Import, clap::Error> {
        let common = &self.common;
        if common.file.is_some() {
            live_only("--map", !self.map.is_empty())?;
            live_only("--fields", !self.fields.is_empty())?;
            live_only("--agg", self.agg.is_some())?;
        }
        let shape = self.from.map(|from| self.shape(from, config)).transpose()?;
        let mode = match self.mode {
            ModeArg::Add => Mode::Add,
            ModeArg::Set => Mode::Set,
        };
        let mut more = vec![format!("mode={}", mode.name())];
        more.extend(self.from.iter().map(|from| format!("{from:?}")));
        more.extend(self.metric.iter().map(|metric| format!("metric={metric}")));
        more.extend(self.ignore.iter().map(|name| format!("ignore={name}")));
        let map = self.map.iter();
        more.extend(map.map(|(name, metric)| format!("map={name}={metric}")));
        more.extend(self.fields.iter().map(|field| format!("field={field}")));
        more.extend(self.agg.iter().map(|pattern| format!("agg={pattern}")));
        if self.endian == EndianArg::Little {
            more.push("little".to_owned());
        }
        let defaults = common.defaults(self.metric.as_ref(), &self.ignore);
        let source = common.source(config, Kind::Counts, defaults, shape)?;
        Ok(common.import(source, Kind::Counts, mode, &more.join(" ")))
    }

    fn shape(&self, from: CountShape, config: &Config) -> Result<Shape, clap::Error> {
        let pattern = || required("--pattern", &self.common.pattern);
        let is_packed = from == CountShape::Packed;
        if !is_packed && (!self.fields.is_empty() || self.agg.is_some()) {
            return usage("--fields and --agg require --from packed");
        }
        match from {
            CountShape::HashPerEntity => Ok(Shape::HashPerEntity {
                pattern: pattern()?,
                fields: FieldMap {
                    metrics: self.map.iter().cloned().collect(),
                    ignored: self.ignore.clone(),
                },
            }),
            CountShape::HashPerCounter => {
                if self.common.pattern.is_some() {
                    return usage("--from hash-per-counter has no --pattern: --map names the keys");
                }
                let names = self.map.iter();
                let names = names.map(|(_, name)| config.metrics.resolve(name));
                let mut metrics: Vec<&str> = names.collect();
                metrics.sort_unstable();
                if metrics.is_empty() || metrics.windows(2).any(|two| two[0] == two[1]) {
                    return usage("--from hash-per-counter requires --map, with each metric once");
                }
                Ok(Shape::HashPerCounter(self.map.clone()))
            }
            CountShape::Packed => {
                if self.fields.is_empty() || !self.map.is_empty() {
                    return usage("--from packed requires --fields instead of --map");
                }
                let named = |field: &String| (field != "-").then(|| field.clone());
                Ok(Shape::Packed(Packed {
                    pattern: pattern()?,
                    fields: self.fields.iter().map(named).collect(),
                    increments: self.agg.clone(),
                    endian: match self.endian {
                        EndianArg::Big => Endian::Big,
                        EndianArg::Little => Endian::Little,
                    },
                }))
            }
        }
    }
}
