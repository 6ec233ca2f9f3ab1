//! The executables and modules of a run.

use std::path::PathBuf;

/// Which server, service and modules are measured.
pub struct Programs {
    /// The server's command line: an executable, and arguments that precede the driver's own.
    pub server: Vec<String>,
    /// The module under test.
    pub module: PathBuf,
    /// The plain module of `benches/floor`.
    pub floor: PathBuf,
    /// The service's executable.
    pub countd: PathBuf,
    /// redis-roaring, if it is to be measured.
    pub roaring: Option<PathBuf>,
    /// RedisBloom, if it is to be measured.
    pub bloom: Option<PathBuf>,
}

#[cfg(test)]
impl Programs {
    /// Every program, both optional modules included.
    pub fn for_test() -> Programs {
        Programs {
            server: vec!["redis-server".into()],
            module: "libcountint.so".into(),
            floor: "libcountint_floor.so".into(),
            countd: "countd".into(),
            roaring: Some("libredis-roaring.so".into()),
            bloom: Some("redisbloom.so".into()),
        }
    }
}
