//! `--json`: every command prints its progress and errors on stderr and one report on stdout, as JSON objects.

mod short;

use crate::reconcile::setup::PARTITIONS;
use crate::replay::setup::{config, start, wait_until_archived};
use crate::schema_migrate::setup;
use crate::support::stores::{TestStore, module};
use crate::support::workload::DAILY;
use crate::support::{
    Countd, Settings, on_note, run, wait_until_days_are_kept, wait_until_drained,
};
use countint_tests::env::TempDir;
use countint_tests::{reply, wait_until};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::{Path, PathBuf};

const METRICS: &str = "\
[metrics.read]\nnature = \"repeatable\"\ncount = \"batched\"\n\
[metrics.like]\nnature = \"once\"\ncount = \"batched\"\nreverse = true\n";

/// What a command has printed.
pub struct Printed {
    pub status: i32,
    /// The objects on stdout.
    pub output: Vec<Json>,
    /// The objects on stderr that are not log lines.
    pub errors: Vec<Json>,
}

/// Runs a command with `--json`. Fails unless every line is a JSON object.
#[track_caller]
pub fn with_json(store: &TestStore, config: &str, arguments: &[&str]) -> Printed {
    let output = run(&store.server, config, &[arguments, &["--json"]].concat());
    let objects = |bytes: &[u8]| -> Vec<Json> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let object = |line: &str| {
            let value: Json = serde_json::from_str(line).unwrap_or(Json::Null);
            assert!(value.is_object(), "{arguments:?}: {text}");
            value
        };
        text.lines().map(object).collect()
    };
    let mut errors = objects(&output.stderr);
    errors.retain(|object| object.get("level").is_none());
    Printed {
        status: output.status.code().expect("it ended by itself"),
        output: objects(&output.stdout),
        errors,
    }
}

impl Printed {
    /// The report of a command that succeeded.
    #[track_caller]
    pub fn report(&self) -> &Json {
        assert_eq!(self.status, 0, "{:?}", self.errors);
        assert_eq!(self.output.len(), 1, "{:?}", self.output);
        &self.output[0]
    }

    /// Why a command failed that has printed no report.
    #[track_caller]
    pub fn error(&self) -> &str {
        assert_eq!(
            (self.status, self.output.len()),
            (1, 0),
            "{:?}",
            self.output
        );
        let last = self.errors.last().expect("an error");
        let error = last["error"].as_str();
        error.unwrap_or_else(|| panic!("no error: {:?}", self.errors))
    }

    /// Asserts that every line of a step has a total that is not exceeded, and that the last one has reached it. Returns the last one.
    #[track_caller]
    pub fn completed(&self, step: &str) -> &Json {
        let progress = self.errors.iter().map(|object| &object["progress"]);
        let lines: Vec<&Json> = progress.filter(|line| line["step"] == step).collect();
        let last = lines
            .last()
            .unwrap_or_else(|| panic!("no {step}: {:?}", self.errors));
        for line in &lines {
            let (done, total) = (line["done"].as_u64(), line["total"].as_u64());
            assert!(done.is_some() && done <= total && total > Some(0), "{line}");
        }
        assert_eq!(last["done"], last["total"], "{lines:?}");
        last
    }

    /// The progress of a step.
    #[track_caller]
    fn progress(&self, step: &str) -> &Json {
        let mut progress = self.errors.iter().map(|object| &object["progress"]);
        let found = progress.find(|progress| progress["step"] == step);
        let found = found.unwrap_or_else(|| panic!("no {step}: {:?}", self.errors));
        assert!(found["seconds"].is_u64(), "{found}");
        found
    }
}

/// A file of the test's directory.
fn file(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, text).expect("the test's directory is writable");
    path
}

#[test]
fn long_commands_print_progress_and_one_report() {
    let (store, dir) = (module(), TempDir::new());
    let archive = dir.path().join("archive");
    let config = config(&archive, METRICS);
    let mut countd = start(&store, &config);
    let api = countd.api();
    for uid in 1..=20 {
        api.ok(api.post("/action/like", &on_note(1, uid)));
        api.ok(api.post("/action/read", &on_note(2, uid)));
    }
    wait_until_drained(&store.server, PARTITIONS);
    wait_until_archived(&store);
    let run = |arguments: &str| {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        with_json(&store, &config, &words)
    };

    // Migrations.
    let adopted = run("storage adopt --grace 0");
    let expected = json!({ "converted": 0, "moved": 0, "passes": 1, "damaged": [] });
    assert_eq!(*adopted.report(), expected);
    assert_eq!(adopted.progress("converting")["unit"], "keys");

    // Imports.
    let likes = "metric,etype,eid,uid\nlike,note,3,1\nlike,note,3,2\n";
    let likes = file(dir.path(), "likes.csv", likes).display().to_string();
    let facts = run(&format!("import facts --job likes {likes}"));
    let expected = json!({
        "records": 2, "skipped": 0, "changed": 2, "verified": 2, "differences": 0, "first_differences": []
    });
    assert_eq!(*facts.report(), expected);
    let applying = facts.progress("applying");
    assert_eq!(applying["unit"], "bytes");
    assert_eq!(
        applying["total"],
        json!(fs::metadata(&likes).expect("a file").len())
    );
    facts.progress("verifying");
    let counts = "etype,eid,read\nnote,4,7\n";
    let counts = file(dir.path(), "counts.csv", counts).display().to_string();
    let counted = run(&format!("import counts --job counts {counts}"));
    assert_eq!(counted.report()["records"], 1);
    let authors = "etype,eid,author\nnote,4,77\n";
    let authors = file(dir.path(), "authors.csv", authors)
        .display()
        .to_string();
    let registered = run(&format!("import authors --job authors {authors}"));
    assert_eq!(registered.report()["records"], 1);
    let invalid = file(
        dir.path(),
        "invalid.csv",
        "metric,etype,eid,uid\nlike,note,,1\n",
    );
    let skipped = run(&format!(
        "import facts --job invalid --skip-invalid 1 {}",
        invalid.display()
    ));
    assert_eq!(skipped.report()["skipped"], 1);
    assert!(
        skipped
            .errors
            .iter()
            .any(|object| object["note"].is_string()),
        "{:?}",
        skipped.errors
    );
    assert_eq!(
        *run("import forget likes").report(),
        json!({"forgotten": "likes"})
    );
    let unknown = run("import forget likes");
    assert_eq!(unknown.error(), "there is no import likes");

    // Counters.
    wait_until_drained(&store.server, PARTITIONS);
    let moved = run("storage migrate note --grace 0");
    assert_eq!(moved.report()["target"], "note");
    assert!(moved.progress("grace period")["moved"].is_u64());
    let read = run("reverse backfill like --grace 0");
    assert_eq!(*read.report(), json!({"metric": "like", "facts": 22}));
    let reading = read.progress("reading facts");
    assert_eq!(
        (&reading["unit"], &reading["facts"]),
        (&json!("keys"), &json!(22))
    );
    let compared = run("reconcile --all");
    assert!(compared.report()["metrics"]["like"].is_object());
    compared.progress("comparing");
    wait_until_archived(&store);
    let rebuilt = run("rebuild --from earliest");
    assert!(rebuilt.report()["metrics"]["read"].is_object());
    rebuilt.progress("reading counters");

    // The archive.
    let baseline = run("archive baseline");
    let name = baseline.report()["name"].clone();
    assert!(
        name.as_str()
            .is_some_and(|name| name.ends_with(".baseline"))
    );
    let listed = run("archive list");
    assert_eq!(listed.report()["baselines"], json!([name]));
    assert!(listed.report()["ranges"][0]["first"].is_u64());
    let verified = run("archive verify");
    assert!(
        verified.report()["entries"]
            .as_u64()
            .is_some_and(|entries| entries >= 40)
    );
    verified.progress("reading");
    let pruned = run("archive prune --before 1990-01-01");
    let expected = json!({"chunks": 0, "segments": 0, "baselines": 0});
    assert_eq!(*pruned.report(), expected);
    pruned.progress("deleting files");

    // Dead letters.
    store.server.client().ok("XADD x:cnt-update:0 0-* e {}");
    wait_until("there is a dead letter", || {
        let length = store.server.client().ok("XLEN x:cnt-update:dead");
        reply::int(length) == 1
    });
    let retried = run("dead retry --all");
    assert_eq!(*retried.report(), json!({"retried": 1, "left": 0}));
    assert_eq!(retried.progress("retried")["done"], 1);
    wait_until_drained(&store.server, PARTITIONS);
    assert_eq!(
        *run("dead drop --all").report(),
        json!({"dropped": 1, "left": 0})
    );

    // Findings are printed as they are found.
    for command in ["check", "doctor"] {
        let checked = run(command);
        assert_eq!(checked.status, 0, "{:?}", checked.errors);
        assert!(checked.output.len() > 3);
        let is_finding =
            |object: &Json| object["severity"].is_string() && object["text"].is_string();
        assert!(
            checked.output.iter().all(is_finding),
            "{:?}",
            checked.output
        );
        let inspected = checked.progress("inspecting");
        assert_eq!(inspected["total"], json!(PARTITIONS));
    }

    // A restore needs the data for itself.
    countd.stop();
    let restored = run("restore");
    assert!(restored.report()["replayed"].is_u64());
    assert_eq!(restored.progress("applying")["unit"], "chunks");
}

#[test]
fn migrations_of_schemas_print_one_report() {
    let store = module();
    setup::set_schemas(&store.server);
    let migrate = |options: &[&str]| with_json(&store, &setup::CONFIG, &setup::arguments(options));
    let status = migrate(&["--status"]);
    let status = status.report();
    assert_eq!(
        (&status["migrations"], &status["running"], &status["behind"]),
        (&json!([]), &Json::Null, &json!([]))
    );
    let (command, config): (_, &str) = ("all", &setup::CONFIG);
    let _countd = Countd::with(&store.server, &Settings { command, config });
    wait_until_days_are_kept(std::slice::from_ref(&store.server), DAILY.len());
    let migrated = migrate(&["--percent", "25"]);
    let [migration] = &migrated.report()["migrations"].as_array().expect("a list")[..] else {
        panic!("one migration: {:?}", migrated.output);
    };
    assert_eq!(
        (&migration["columns"], &migration["percent"]),
        (&json!("v1"), &json!(25))
    );
    migrated.progress("waiting for all processes");
    let unknown = ["schema", "migrate", "v1", "nothing"];
    with_json(&store, &setup::CONFIG, &unknown).error();
}
