//! Runs the commands of docs/countd/sizing.md, and compares what they print.
//!
//! After a run of the benchmarks, `UPDATE_PAGES=1 cargo test -p countd --bins size::page` writes what they print into the page.

use super::SizeCommand;
use super::output;
use crate::cli::args::{Cli, Command};
use clap::Parser;
use countd::domain::sizing::LOG_ENTRY;
use countint_tests::env;
use std::fs;

const PAGE: &str = "docs/countd/sizing.md";

/// The command of a line of the page or of a test.
pub(super) fn command(line: &str) -> Box<SizeCommand> {
    match Cli::try_parse_from(line.split_whitespace()).map(|cli| cli.command) {
        Ok(Some(Command::Size(command))) => command,
        other => panic!("{PAGE}: not a valid countd size: {line}: {other:?}"),
    }
}

/// The page with what its commands print, and the number of commands. A block has one command.
fn updated(text: &str) -> (String, usize) {
    let (mut updated, mut commands, mut lines) = (String::new(), 0, text.lines());
    while let Some(line) = lines.next() {
        updated += &format!("{line}\n");
        if line != "```console" {
            continue;
        }
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let first = block.first().and_then(|line| line.strip_prefix("$ "));
        let first = first.unwrap_or_else(|| panic!("{PAGE}: a block without a command: {block:?}"));
        let printed = output(&command(first)).unwrap_or_else(|error| panic!("{first}: {error}"));
        updated += &format!("$ {first}\n{printed}```\n");
        commands += 1;
    }
    (updated, commands)
}

#[test]
fn commands_of_the_page_print_what_it_says() {
    let file = env::workspace().join(PAGE);
    let text = fs::read_to_string(&file).expect("the page can be read");
    let (updated, commands) = updated(&text);
    assert!(commands >= 4, "only {commands} commands");
    if env::updates_pages() {
        fs::write(&file, updated).expect("the page can be written");
        return;
    }
    for (number, (line, now)) in text.lines().zip(updated.lines()).enumerate() {
        assert_eq!(
            line,
            now,
            "{PAGE}:{}: run the test with UPDATE_PAGES=1",
            number + 1
        );
    }
    assert_eq!(text, updated, "{PAGE}: run the test with UPDATE_PAGES=1");
}

#[test]
fn json_has_the_load_and_the_plan() {
    let printed = output(&command(
        "countd size --entities 1M --actions 1k --reads 2k --json",
    ));
    let printed: serde_json::Value = serde_json::from_str(&printed.expect("a plan")).expect("JSON");
    assert_eq!(printed["workload"]["actions"], 1_000.0);
    assert_eq!(printed["machines"]["cores"], 8);
    assert_eq!(printed["plan"]["deployment"]["masters"], 1);
    assert!(printed["plan"]["latency"]["read"]["p99"].as_f64() > Some(0.0));
    assert!(printed["plan"]["limits"][0]["resource"].is_string());
}

#[test]
fn figures_can_be_those_of_a_file() {
    let load = "countd size --entities 1M --actions 1 --reads 1 --figures";
    let error = |file: &str| {
        let result = output(&command(&format!("{load} {file}")));
        result.expect_err("no plan").to_string()
    };
    assert!(error("/nonexistent/figures.json").contains("cannot read /nonexistent/figures.json"));
    let page = env::workspace().join("docs/benchmarks.md");
    assert!(error(&page.display().to_string()).contains("not a JSON object"));
    let figures = env::workspace().join("docs/benchmarks.json");
    let printed = output(&command(&format!("{load} {}", figures.display()))).expect("a plan");
    let embedded = output(&command(load.trim_end_matches(" --figures"))).expect("a plan");
    assert_eq!(printed, embedded);
}

#[test]
fn a_load_beyond_the_largest_cluster_is_an_error() {
    let load = "countd size --entities 1M --actions 0 --reads 1M --hot-share 90";
    let error = output(&command(load)).expect_err("too hot").to_string();
    assert!(error.contains("hottest entity"), "{error}");
}

/// The model's bytes of an entry of the log are those that the page of operations has measured.
#[test]
fn bytes_of_log_entries_are_those_of_the_operations_page() {
    let text = fs::read_to_string(env::workspace().join("docs/countd/operations.md"));
    let row = format!("| log entry, with author and trace id | {LOG_ENTRY} |");
    assert!(text.expect("the page can be read").contains(&row), "{row}");
}
