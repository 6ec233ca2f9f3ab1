//! Options of imports of facts.

use super::common::{CommonArgs, required};
use crate::cli::output::Output;
use clap::{Args, ValueEnum};
use countd::domain::config::Config;
use countd::domain::ids::Name;
use countd::maintenance::import::{Import, Kind, Mode, Shape};

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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FactShape {
    /// A Set of user IDs per entity
    Sets,
    /// A bitmap per entity: the offset of a bit is a user ID
    Bitmap,
}

impl FactsArgs {
    pub(super) fn output(&self) -> Output {
        self.common.output
    }

    pub(super) fn import(&self, config: &Config) -> Result<Import, clap::Error> {
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
