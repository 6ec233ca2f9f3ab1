//! The README's requests to countd come out as printed.

use crate::support::{Api, Countd, wait_until_drained};
use countint_tests::{Server, env, line};
use serde_json::Value as Json;

/// The lines of the blocks marked `console`.
fn transcript(text: &str) -> Vec<&str> {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if inside {
            lines.push(line);
        }
    }
    lines
}

/// What `curl` would get.
fn curl(api: &Api, command: &str) -> Json {
    let words = line::split(command).expect("a command line");
    let words: Vec<String> = words
        .into_iter()
        .map(|word| String::from_utf8(word).expect("a text"))
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let path = |url: &str| {
        url.strip_prefix("localhost:8090")
            .expect("a request to countd")
            .to_owned()
    };
    match words.as_slice() {
        ["curl", url] => api.ok(api.get(&path(url))),
        ["curl", "-d", body, url] => {
            api.ok(api.post(&path(url), &serde_json::from_str(body).expect("JSON")))
        }
        _ => panic!("not understood: {command}"),
    }
}

#[test]
fn the_tour_comes_out_as_printed() {
    let server = Server::start();
    let countd = Countd::start(&server, "");
    let readme = std::fs::read_to_string(env::workspace().join("README.md")).expect("the README");
    let lines = transcript(&readme);
    assert!(lines.len() >= 16, "the tour is there");
    for pair in lines.chunks(2) {
        let [command, printed] = pair else {
            panic!("a command without an answer: {pair:?}");
        };
        let command = command.strip_prefix("$ ").expect("a command");
        wait_until_drained(&server, 1024);
        let printed: Json = serde_json::from_str(printed).expect("JSON");
        assert_eq!(curl(&countd.api(), command), printed, "{command}");
    }
}
