//! The examples of docs/fallback.md, in order, on an empty server without the module.

use super::fallback::{Call, FUNCTIONS};
use countint_tests::console::{self, Console};
use countint_tests::scenario::{matches, parse};
use countint_tests::{Server, env, page, reply};
use std::fs;

/// Blocks `console` and `redis-plain` run without the module; then the module is loaded for the blocks `redis-module`.
#[test]
fn fallback_page_examples_print_what_it_shows() {
    let server = Server::builder().no_module().start();
    let (mut client, console) = (server.client(), Console::new(server.port()));
    let mut played = Vec::new();
    for block in page::read("docs/fallback.md") {
        let at = |line: usize| format!("docs/fallback.md:{line}");
        match block.mark.as_str() {
            "console" => {
                let entries = console::parse(block.numbered()).expect("commands and output");
                let commands: Vec<_> = entries.iter().map(|entry| entry.command.as_str()).collect();
                for (entry, output) in entries.iter().zip(console.run(&commands)) {
                    assert_eq!(output, entry.printed, "{}", at(entry.line));
                }
            }
            "redis-plain" | "redis-module" => {
                if block.mark == "redis-module" {
                    client.ok(&format!("MODULE LOAD {}", env::module().display()));
                }
                for step in parse(block.numbered()).expect("a transcript") {
                    let got = reply::format(&client.call(&step.args));
                    assert!(matches(&step.reply, &got), "{}\n{got}", at(step.line));
                }
            }
            mark => panic!("{}: unknown info string: {mark}", at(block.line)),
        }
        played.push(block.mark);
    }
    let expected = ["console", "console", "redis-plain", "redis-module"];
    assert_eq!(played, expected, "the page has transcripts");
}

#[test]
fn fallback_page_lists_every_function() {
    let page = fs::read_to_string(env::workspace().join("docs/fallback.md"));
    let page = page.expect("docs/fallback.md is there");
    for name in FUNCTIONS {
        let call = Call::of(&[name.as_bytes().to_vec()]).expect("the command has a function");
        let reported = page.contains(&format!("`FCALL {} ", call.function));
        assert!(reported, "the page does not show {}", call.function);
    }
}
