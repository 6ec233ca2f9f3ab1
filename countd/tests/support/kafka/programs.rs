//! Java programs with the jars of Kafka.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

/// The jars that `scripts/kafka` fetches.
///
/// # Panics
/// When `COUNTINT_KAFKA` is not set.
fn jars() -> PathBuf {
    let jars = std::env::var_os("COUNTINT_KAFKA")
        .expect("COUNTINT_KAFKA is the directory that scripts/kafka prints");
    PathBuf::from(jars)
}

/// A Java program with a small heap, whose class path has the jars of Kafka.
pub fn java(class: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("java");
    command
        .args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        .arg("-cp")
        .arg(jars().join("*"))
        .arg(class);
    command
}
