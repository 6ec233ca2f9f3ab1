//! The examples in the documentation print what the pages show. The blocks of a page run in order, on a database that
//! is empty before the page:
//!
//! - `redis`: a transcript; `redis resp3` uses RESP3; in `redis sizes` the size after `"bytes"` may differ, because it
//!   depends on the server's allocator.
//! - `sh` and `console`: shell commands. [`ELSEWHERE`] lists the pages whose commands other tests run.
//!
//! Blocks without an info string and blocks in other languages are not run. An unknown info string is an error, so that
//! a misspelled one is not skipped.

use countint_tests::page::{self, Block};
use countint_tests::scenario::{Step, matches, parse};
use countint_tests::{Client, Server, args, env, reply};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Pages whose shell commands are run by another test or not at all, with the reason.
const ELSEWHERE: [(&str, &str); 14] = [
    ("README.md", "countd/tests/tour runs the whole page"),
    (
        "docs/architecture.md",
        "profiling, with tools of developers",
    ),
    ("docs/benchmarks.md", "how the figures were measured"),
    (
        "docs/countd/deploy.md",
        "scripts/fresh --deploy runs them on a bare Debian",
    ),
    (
        "docs/countd/import.md",
        "countd/tests/import/page.rs runs the example",
    ),
    (
        "docs/countd/kafka.md",
        "a command of Kafka; scripts/run --kafka creates the same topic",
    ),
    (
        "docs/countd/operations.md",
        "countd/tests/acl_page.rs creates the users",
    ),
    (
        "docs/countd/quickstart.md",
        "countd/tests/tour runs the whole page",
    ),
    (
        "docs/countd/procedures.md",
        "countd/tests/procedures runs them",
    ),
    (
        "docs/countd/sizing.md",
        "countd/src/cli/size/page.rs runs them",
    ),
    (
        "docs/fallback.md",
        "conformance/page.rs runs the whole page",
    ),
    (
        "docs/quickstart.zh-CN.md",
        "repository/translations.rs compares the commands with English pages",
    ),
    ("docs/tour.md", "countd/tests/tour runs the whole page"),
    ("docs/operations.md", "marks/torn.rs cuts append-only files"),
];

/// How a block is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Not run.
    Text,
    /// A transcript of redis-cli.
    Transcript { resp3: bool },
    /// Commands of a shell.
    Shell,
}

fn kind(block: &Block) -> Result<Kind, String> {
    match block.mark.as_str() {
        // `redis-plain` and `redis-module`: see conformance/page.rs. `sql`: countd's tests of relays and sinks run it.
        "" | "text" | "json" | "toml" | "lua" | "python" | "js" | "java" | "go" | "rust"
        | "yaml" | "sql" | "redis-plain" | "redis-module" => Ok(Kind::Text),
        "redis" | "redis sizes" => Ok(Kind::Transcript { resp3: false }),
        "redis resp3" | "redis resp3 sizes" => Ok(Kind::Transcript { resp3: true }),
        "sh" | "console" => Ok(Kind::Shell),
        mark => Err(format!("{}: unknown info string: {mark:?}", block.line)),
    }
}

/// README.md and every page under docs, as paths from the root.
fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned()];
    let mut directories = vec![PathBuf::from("docs")];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(env::workspace().join(&directory));
        for entry in entries.expect("the directory of a page can be read") {
            let path = directory.join(entry.expect("it can be read").file_name());
            if env::workspace().join(&path).is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path.to_str().expect("names are ASCII").to_owned());
            }
        }
    }
    pages.sort();
    pages
}

fn steps(block: &Block) -> Result<Vec<Step>, String> {
    let steps = parse(block.numbered())?;
    if steps.is_empty() {
        return Err(format!("{}: an empty transcript", block.line));
    }
    Ok(steps)
}

/// Runs a transcript and returns the differences.
fn play(client: &mut Client, block: &Block) -> Vec<String> {
    let steps = match steps(block) {
        Ok(steps) => steps,
        Err(why) => return vec![why],
    };
    let sizes = block.mark.ends_with("sizes");
    let mut differences = Vec::new();
    for step in steps {
        let expected = if sizes {
            any_size(&step.reply)
        } else {
            step.reply
        };
        let got = reply::format(&client.call(&step.args));
        if !matches(&expected, &got) {
            let (line, command) = (step.line, step.command);
            differences.push(format!(
                "{line} > {command}\nprinted: {expected}\n    got: {got}"
            ));
        }
    }
    differences
}

/// The reply with `<number>` for the size that follows `"bytes"`.
fn any_size(reply: &str) -> String {
    let Some((before, after)) = reply.split_once("\"bytes\"") else {
        return reply.to_owned();
    };
    let digits = |c: char| c.is_ascii_digit();
    let Some((name, size)) = after.split_once("(integer) ") else {
        return reply.to_owned();
    };
    let rest = size.trim_start_matches(digits);
    format!("{before}\"bytes\"{name}(integer) <number>{rest}")
}

/// Runs the commands of a page that start an example, and returns the failures.
fn run_examples(server: &Server, block: &Block) -> Vec<String> {
    let mut wrong = Vec::new();
    for (line, command) in block.numbered() {
        let words = countint_tests::line::split(command).expect("a command line");
        let words: Vec<_> = words
            .iter()
            .map(|word| String::from_utf8_lossy(word))
            .collect();
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        let [
            "cargo",
            "run",
            "--release",
            "--example",
            example,
            arguments @ ..,
        ] = words.as_slice()
        else {
            wrong.push(format!("{line}: no test runs: {command}"));
            continue;
        };
        // It creates a million keys; examples.rs runs it with fewer.
        if (*example, arguments) == ("migrate", &["--", "demo"]) {
            continue;
        }
        let output = Command::new(env::example(example))
            .args(arguments.iter().skip_while(|argument| **argument == "--"))
            .current_dir(env::workspace())
            .env("REDIS_URL", format!("redis://127.0.0.1:{}", server.port()))
            .output()
            .expect("the example can be run");
        if !output.status.success() {
            wrong.push(format!("{line}: {command}: {output:?}"));
        }
    }
    wrong
}

#[test]
fn examples_print_what_the_pages_show() {
    let server = Server::start();
    let mut failed = Vec::new();
    for name in pages() {
        let (mut resp2, mut resp3) = (server.client(), server.client3());
        resp2.ok("FLUSHALL");
        for block in page::read(&name) {
            let elsewhere = ELSEWHERE.iter().any(|(page, _)| *page == name);
            let wrong = match kind(&block) {
                Ok(Kind::Text) => Vec::new(),
                Ok(Kind::Transcript { resp3: true }) => play(&mut resp3, &block),
                Ok(Kind::Transcript { resp3: false }) => play(&mut resp2, &block),
                Ok(Kind::Shell) if elsewhere => Vec::new(),
                Ok(Kind::Shell) => run_examples(&server, &block),
                Err(why) => vec![why],
            };
            failed.extend(wrong.into_iter().map(|why| format!("{name}:{why}")));
        }
    }
    assert!(
        failed.is_empty(),
        "{} examples differ:\n\n{}",
        failed.len(),
        failed.join("\n\n")
    );
}

/// The transaction of docs/choosing.md that reads an entity while it moves into a table, and its script that moves one
/// in a cluster.
#[test]
fn moving_into_tables_works_as_documented() {
    let server = Server::start();
    let mut client = server.client();
    let blocks = page::read("docs/choosing.md");
    let block = |mark: &str| {
        let mut found = blocks.iter().filter(|block| block.mark == mark);
        let block = found.next().unwrap_or_else(|| panic!("no block {mark}"));
        assert!(found.next().is_none(), "one block {mark}");
        block.text()
    };
    client.ok("HSET post:7 reads 5 likes 1");
    client.ok("CTAB.BATCHINCR posts:0 7 LEN 3 0 2");
    let mut last = String::new();
    for line in block("text").lines() {
        let command = line.split('#').next().unwrap_or_default();
        last = reply::format(&client.ok(command));
    }
    let expected = "1) 1) \"5\"\n   2) \"1\"\n   3) (nil)\n\
                    2) 1) 1) (integer) 2\n      2) (integer) 0\n      3) (integer) 0";
    assert_eq!(last, expected);
    let mut move_key = || {
        let script = block("lua");
        let call = args!["EVAL", script, 2, "posts:0", "{posts:0}:moved", 7, 5, 1, 0];
        reply::format(&client.call(&call))
    };
    assert_eq!(
        (move_key(), move_key()),
        ("(integer) 1".into(), "(integer) 0".into())
    );
    let row = "1) 1) (integer) 7\n   2) (integer) 1\n   3) (integer) 0";
    client.expect("CTAB.MGET posts:0 7", row);
}

/// The page of a command. Fails unless it has an example, which `examples_print_what_the_pages_show` runs.
pub fn page(command: &str) -> Result<String, String> {
    let path = env::workspace().join(format!("docs/commands/{command}.md"));
    let text =
        fs::read_to_string(path).map_err(|_| format!("docs/commands/{command}.md is missing"))?;
    let mut shown = false;
    for block in page::blocks(&text) {
        if let Kind::Transcript { .. } = kind(&block)? {
            shown |= steps(&block)?
                .iter()
                .any(|step| step.args[0].eq_ignore_ascii_case(command.as_bytes()));
        }
    }
    if !shown {
        return Err(format!("docs/commands/{command}.md shows no example of it"));
    }
    Ok(text)
}
