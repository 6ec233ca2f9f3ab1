//! The executables and modules of a run.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::error::Result;

/// The server, service and modules to measure.
pub struct Programs {
    /// The server's command line: an executable, and arguments that precede the driver's own.
    pub server: Vec<String>,
    /// The module under test.
    pub module: PathBuf,
    /// The plain module of `benches/floor`.
    pub floor: PathBuf,
    /// The service's executable.
    pub countd: PathBuf,
    /// The bare axum server, the lower bound for single reads.
    pub bare: PathBuf,
    /// The program that measures the detection of hot entities alone.
    pub hot_cost: PathBuf,
    /// The directory with the jars of Kafka, if given.
    pub kafka: Option<PathBuf>,
    /// redis-roaring, if given.
    pub roaring: Option<PathBuf>,
    /// RedisBloom, if given.
    pub bloom: Option<PathBuf>,
}

/// What a program has printed.
///
/// # Errors
/// It failed: the error is what it printed to its standard error.
pub fn printed(output: Output) -> Result<String> {
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)?),
        false => Err(String::from_utf8_lossy(&output.stderr).into()),
    }
}

impl Programs {
    /// The directory with the jars of Kafka.
    pub fn kafka(&self) -> Result<&Path> {
        let missing = "Kafka is missing: COUNTINT_KAFKA is the directory that scripts/kafka prints";
        self.kafka.as_deref().ok_or_else(|| missing.into())
    }
}

#[cfg(test)]
impl Programs {
    /// All programs, including both optional modules.
    pub fn for_test() -> Programs {
        Programs {
            server: vec!["redis-server".into()],
            module: "libcountint.so".into(),
            floor: "libcountint_floor.so".into(),
            countd: "countd".into(),
            bare: "bare_axum".into(),
            hot_cost: "hot_cost".into(),
            kafka: Some("jars".into()),
            roaring: Some("libredis-roaring.so".into()),
            bloom: Some("redisbloom.so".into()),
        }
    }
}
