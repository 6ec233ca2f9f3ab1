//! The commands of "Backup and restore" in docs/countd/operations.md, in their order.

use crate::reconcile::setup::PARTITIONS;
use crate::replay::setup::{config, digests, wait_until_archived};
use crate::support::invariants::Invariants;
use crate::support::stores::{TestStore, module};
use crate::support::{
    Api, Countd, Running, Settings, on_note, printed, run, set_schema, wait_until_drained,
};
use countint_tests::env::{TempDir, workspace};
use countint_tests::{reply, wait_until};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The commands of a subsection of the page, without comments.
fn commands(subsection: &str) -> Vec<String> {
    let page = fs::read_to_string(workspace().join("docs/countd/operations.md")).expect("a page");
    let (_, section) = page
        .split_once("\n## Backup and restore\n")
        .expect("a section");
    let section = section.split("\n## ").next().expect("the section");
    let parts = section.split("\n### ");
    let text = parts.filter(|part| part.starts_with(subsection));
    let text: Vec<&str> = text.collect();
    assert_eq!(text.len(), 1, "{subsection}");
    let (mut commands, mut is_shell) = (Vec::new(), false);
    for line in text[0].lines().map(str::trim) {
        if line.starts_with("```") {
            is_shell = line == "```sh";
        } else if is_shell {
            let line = line.split('#').next().unwrap_or_default();
            // A loop is one command.
            let separator = match line.starts_with("while ") || line.starts_with("until ") {
                true => "\n",
                false => ";",
            };
            let of_line = line.split(separator).map(str::trim);
            commands.extend(of_line.filter(|one| !one.is_empty()).map(str::to_owned));
        }
    }
    commands
}

/// Runs commands of the page on a server.
struct Runbook<'t> {
    store: &'t mut TestStore,
    countd: &'t mut Countd,
    config: &'t str,
    backup: PathBuf,
}

/// Whether a line of the reply to `redis-cli INFO persistence` has one of the patterns of `| grep`.
fn has_line(store: &TestStore, filter: &str) -> bool {
    let (command, grep) = filter.split_once(" | grep ").expect("a pattern");
    assert_eq!(command, "redis-cli INFO persistence");
    let info = reply::text(store.server.client().ok("INFO persistence"));
    let options = ["-q", "-e"];
    let patterns = grep
        .split_whitespace()
        .filter(|word| !options.contains(word));
    patterns.into_iter().any(|pattern| info.contains(pattern))
}

impl Runbook<'_> {
    /// The file that the page names.
    fn file(&self, name: &str) -> PathBuf {
        match name.strip_prefix("/backup/") {
            Some(name) => self.backup.join(name),
            None => self.store.server.dir().join(name),
        }
    }

    fn run(&mut self, command: &str) {
        if let Some(filter) = command.strip_prefix("while ") {
            let filter = filter.strip_suffix("; do sleep 1; done").expect("a loop");
            return wait_until(filter, || !has_line(self.store, filter));
        }
        if command.contains(" | grep ") && !command.starts_with("until ") {
            return assert!(has_line(self.store, command), "{command}");
        }
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.as_slice() {
            ["until", "redis-cli", "PING", ..] => wait_until("Redis has loaded its data", || {
                self.store.server.client().run("PING") == "PONG"
            }),
            ["systemctl", "start", "countd"] => {
                self.countd.launch();
                wait_until_drained(&self.store.server, PARTITIONS);
            }
            ["redis-cli", arguments @ ..] => {
                drop(self.store.server.client().ok(&arguments.join(" ")));
            }
            ["cp", from, to] => drop(fs::copy(self.file(from), self.file(to)).expect("copied")),
            // It does not exist if the server had none.
            ["rm", "-r", name] => drop(fs::remove_dir_all(self.file(name))),
            ["redis-server", "redis.conf", options @ ..] => {
                for option in options.chunks(2) {
                    let name = option[0].strip_prefix("--").expect("an option");
                    // The test runs it in the foreground.
                    if name != "daemonize" {
                        self.store
                            .server
                            .configure(&format!("{name} {}", option[1]));
                    }
                }
                self.store.server.start_again();
            }
            ["countd", "restore"] => {
                for after in [0, 60] {
                    let running = Running::start(&self.store.server, self.config, &["restore"]);
                    thread::sleep(Duration::from_millis(after));
                    running.kill();
                }
                printed(&run(&self.store.server, self.config, &["restore"]));
            }
            ["countd", arguments @ ..] => {
                printed(&run(&self.store.server, self.config, arguments));
            }
            _ => panic!("the page has a command that this test does not run: {command}"),
        }
    }
}

fn act(api: &Api, users: std::ops::Range<u64>) {
    for uid in users {
        for eid in 1..=30 {
            let metric = if uid % 2 == 0 { "like" } else { "read" };
            let path = format!("/action/{metric}");
            let mut action = on_note(eid, uid);
            action["author"] = json!(9_000 + eid % 5);
            api.ok(api.post(&path, &action));
        }
    }
}

#[test]
fn the_runbook_restores_a_backup() {
    let mut store = module();
    let dir = TempDir::new();
    let archive = dir.path().join("archive");
    let config = config(&archive, "");
    set_schema(&store.server, &config);
    let settings = Settings {
        command: "all",
        config: &config,
    };
    let mut countd = Countd::with(&store.server, &settings);
    let api = countd.api();
    act(&api, 0..20);
    wait_until("something is archived", || {
        Path::new(&archive.join("index")).exists()
    });
    let backup = dir.path().join("backup");
    fs::create_dir(&backup).expect("created");
    let mut runbook = Runbook {
        store: &mut store,
        countd: &mut countd,
        config: &config,
        backup,
    };
    let (before, after) = (commands("Backup"), commands("Restore"));
    assert!(
        before.len() >= 3 && after.len() >= 5,
        "{before:?} {after:?}"
    );
    before.iter().for_each(|command| runbook.run(command));
    act(&api, 10..50);
    wait_until_drained(&runbook.store.server, PARTITIONS);
    wait_until_archived(runbook.store);
    let expected = digests(runbook.store);
    // Redis and its data are lost.
    runbook.countd.stop();
    runbook.store.server.kill();
    let mut found = BTreeMap::new();
    for command in &after {
        runbook.run(command);
        if command == "systemctl start countd" {
            found = digests(runbook.store);
        }
    }
    let counts = ["tab:", "utab:", "rbm:", "aut"];
    let is_count = |key: &&String| counts.iter().any(|prefix| key.starts_with(prefix));
    for key in expected.keys().filter(is_count) {
        assert_eq!(found.get(key), expected.get(key), "{key}");
    }
    assert!(expected.keys().filter(is_count).count() > 30);
    let mut runbook = Runbook {
        store: &mut store,
        countd: &mut countd,
        config: &config,
        backup: dir.path().to_owned(),
    };
    for subsection in ["Prune", "Rebuild"] {
        let commands = commands(subsection);
        assert!(commands.len() >= 3, "{subsection}");
        commands.iter().for_each(|command| runbook.run(command));
    }
    // The append-only file is complete.
    store.restart();
    wait_until_drained(&store.server, PARTITIONS);
    Invariants::new([&store.server], &config).assert();
}
