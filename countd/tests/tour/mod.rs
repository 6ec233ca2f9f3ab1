//! Runs the examples of README.md, docs/tour.md and the welcome of `scripts/run`, in order, on an empty server, and compares
//! the output; then the examples of docs/countd. Also interrupts `scripts/run` at each step of its start.

mod interrupt;
mod reader;
pub(crate) mod script_run;
mod stub;

use crate::support::{Countd, Settings, printed, run, wait_until_drained};
use countint_tests::{Server, page};
use reader::Reader;
use script_run::ScriptRun;
use serde_json::Value as Json;

#[test]
fn readme_output_matches_and_the_welcome_after_it() {
    check_page_then_welcome("README.md", 8);
}

#[test]
fn tour_output_matches_and_the_welcome_after_it() {
    check_page_then_welcome("docs/tour.md", 32);
}

/// Runs a page with at least `commands` commands on an empty server, then the welcome.
fn check_page_then_welcome(page: &str, commands: usize) {
    let mut reader = Reader::new(ScriptRun::start());
    reader.read(page, commands);
    assert_eq!(reader.foreign_keys(), [""; 0], "{page} cleans up");
    reader.try_welcome();
}

#[test]
fn welcome_output_matches_and_the_readme_and_the_tour_after_it() {
    let mut reader = Reader::new(ScriptRun::start());
    reader.try_welcome();
    let tried = reader.foreign_keys();
    for (page, commands) in [("README.md", 8), ("docs/tour.md", 32)] {
        reader.read(page, commands);
        assert_eq!(reader.foreign_keys(), tried, "{page} cleans up");
    }
}

/// The blocks of docs/countd: starting countd, and an envelope.
#[test]
fn output_of_countd_pages_matches() {
    let server = Server::start();
    let mut countd = None;
    let pages = ["docs/countd/quickstart.md", "docs/countd/api.md"];
    for (page, block) in pages
        .iter()
        .flat_map(|page| page::read(page).into_iter().map(move |block| (page, block)))
    {
        match block.mark.as_str() {
            "sh" => {
                for (_, line) in block.numbered() {
                    let command = line.split('#').next().unwrap_or_default();
                    let words: Vec<&str> = command.split_whitespace().collect();
                    match words.as_slice() {
                        // The countd under test has already been built.
                        ["cargo", "build", ..] => {}
                        ["target/release/countd"] => {
                            let (command, config) = ("all", "");
                            countd = Some(Countd::with(&server, &Settings { command, config }));
                        }
                        ["target/release/countd", arguments @ ..] => {
                            printed(&run(&server, "", arguments));
                        }
                        _ => panic!("{page}: no test runs this: {line}"),
                    }
                }
            }
            "json" => {
                let api = countd.as_ref().expect("it was started").api();
                let envelope: Json = serde_json::from_str(&block.text()).expect("JSON");
                let answer = api.ok(api.post("/events", &envelope));
                assert_eq!(answer["accepted"], 1);
                wait_until_drained(&server, 1024);
                assert_eq!(api.counts(7)["like"], 1);
                assert_eq!(api.user(9)["likesReceived"], 1);
            }
            // A part of a configuration.
            "toml" => {
                let parsed = ::countd::domain::config::Config::parse(&block.text());
                assert!(parsed.is_ok(), "{page}:{}: {parsed:?}", block.line);
            }
            // What a server sends.
            "text" => {}
            mark => panic!("{page}:{}: an unknown mark: {mark}", block.line),
        }
    }
    assert!(countd.is_some(), "the pages start countd");
}
