//! The configuration, the files and the commands of the tests of imports.

use crate::support::{Countd, Settings, printed, run};
use countint_tests::Server;
use countint_tests::env::TempDir;
use std::fs;
use std::path::Path;
use std::process::Output;

pub const PARTITIONS: u16 = 16;

/// Metrics of each fact store, and repeatable metrics of each counting mode.
pub const CONFIG: &str = r#"
[log]
partitions = 16
retain = 1000000
[consumer]
linger_ms = 5
[facts]
shards = 3
compaction_interval_seconds = 3600
[limits]
user = { per_second = 0 }
[entities]
note = "i1"
[metrics.read]
nature = "repeatable"
count = "batched"
aliases = ["view"]
[metrics.comment]
nature = "repeatable"
count = "now"
[metrics.tip]
nature = "repeatable"
count = "now"
users = [{ counter = "likesReceived", of = "author" }]
[metrics.ping]
nature = "repeatable"
count = "never"
[metrics.rbm]
nature = "once"
count = "now"
users = [{ counter = "likesReceived", of = "author" }]
[metrics.bitmap]
nature = "once"
count = "now"
facts = "bitmap"
[metrics.daily]
nature = "once"
count = "batched"
facts = "daily"
[metrics.sharded]
nature = "once"
count = "now"
facts = "sharded"
[metrics.follow]
nature = "once"
count = "never"
entities = ["user"]
users = [{ counter = "followings", of = "actor" }, { counter = "followers", of = "target" }]
"#;

/// The metrics with facts about notes. Each is also the name of its fact store.
pub const STORES: [&str; 4] = ["rbm", "bitmap", "daily", "sharded"];

pub fn set_schema(server: &Server) {
    let words = "schema set i1 read comment rbm bitmap daily sharded tip";
    printed(&run(server, CONFIG, &words.split(' ').collect::<Vec<_>>()));
}

/// Starts countd with the schema.
pub fn start(server: &Server) -> Countd {
    set_schema(server);
    let (command, config) = ("all", CONFIG);
    Countd::with(server, &Settings { command, config })
}

/// Files in a temporary directory.
pub struct Files(TempDir);

impl Files {
    pub fn new() -> Files {
        Files(TempDir::new())
    }

    /// Writes a file. Returns its path.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, text).expect("the test's directory is writable");
        path.display().to_string()
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Runs `countd import` with words, and a file if it is not empty.
pub fn import(server: &Server, words: &str, file: &str) -> Output {
    let mut arguments = vec!["import"];
    arguments.extend(words.split_whitespace());
    arguments.extend((!file.is_empty()).then_some(file));
    run(server, CONFIG, &arguments)
}

/// The standard output of an import, which must succeed.
#[track_caller]
pub fn imported(server: &Server, words: &str, file: &str) -> String {
    printed(&import(server, words, file))
}

/// The status, the standard output and the standard error of an import.
pub fn outcome(server: &Server, words: &str, file: &str) -> (i32, String, String) {
    let output = import(server, words, file);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code().expect("it ended by itself"),
        text(&output.stdout),
        text(&output.stderr),
    )
}
