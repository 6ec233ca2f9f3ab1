//! Options of imports of counts.

use super::common::{CommonArgs, live_only, required, usage};
use crate::cli::output::Output;
use clap::{Args, ValueEnum};
use countd::domain::config::Config;
use countd::domain::ids::Name;
use countd::maintenance::import::{
    Endian, FieldMap, Import, KeyPattern, Kind, Mode, Packed, Shape,
};

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

impl CountsArgs {
    pub(super) fn output(&self) -> Output {
        self.common.output
    }

    pub(super) fn import(&self, config: &Config) -> Result<Import, clap::Error> {
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
