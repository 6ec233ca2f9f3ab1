//! What the pages print, done from an empty server in the order in which a reader meets it: README.md and docs/tour.md, each
//! from its first command to its last, and what `scripts/run` proposes when it has started; and the pages of docs/countd.

mod interrupt;
mod reader;
mod stand;
mod stub;

use crate::support::{Countd, Settings, printed, run, wait_until_drained};
use countint_tests::{Server, page};
use reader::Reader;
use serde_json::Value as Json;
use stand::Stand;

#[test]
fn readme_comes_out_as_printed_and_then_the_welcome_does() {
    read_then_try_welcome("README.md", 8);
}

#[test]
fn tour_comes_out_as_printed_and_then_the_welcome_does() {
    read_then_try_welcome("docs/tour.md", 30);
}

/// Reads a page with at least that many commands from an empty server.
fn read_then_try_welcome(page: &str, commands: usize) {
    let mut reader = Reader::new(Stand::start());
    reader.read(page, commands);
    assert_eq!(reader.foreign_keys(), [""; 0], "{page} cleans up");
    reader.try_welcome();
}

#[test]
fn welcome_comes_out_as_printed_and_then_the_readme_and_the_tour_do() {
    let mut reader = Reader::new(Stand::start());
    reader.try_welcome();
    let tried = reader.foreign_keys();
    for (page, commands) in [("README.md", 8), ("docs/tour.md", 30)] {
        reader.read(page, commands);
        assert_eq!(reader.foreign_keys(), tried, "{page} cleans up");
    }
}

/// The blocks of docs/countd: how it is started, and an envelope.
#[test]
fn countd_pages_come_out_as_printed() {
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
                        // The countd under test is built.
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
            mark => panic!("{page}:{}: an unknown mark: {mark}", block.line),
        }
    }
    assert!(countd.is_some(), "the pages start countd");
}
