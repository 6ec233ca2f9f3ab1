//! Java programs with the jars of Kafka.

use countint_tests::kafka;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

/// The jars that `scripts/kafka` fetches.
///
/// # Panics
/// When `COUNTINT_KAFKA` is not set.
pub fn jars() -> PathBuf {
    let jars = std::env::var_os(kafka::JARS)
        .expect("COUNTINT_KAFKA is the directory that scripts/kafka prints");
    PathBuf::from(jars)
}

/// A Java program with a small heap, whose class path has the jars of Kafka.
pub fn java(class: impl AsRef<OsStr>) -> Command {
    kafka::java(&jars(), &kafka::SMALL, class)
}
