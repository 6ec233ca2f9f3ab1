//! The examples in the documentation: every block marked `redis` is a transcript that must come out so. The blocks of a
//! page run in turn on one database; a block marked `redis resp3` speaks RESP3.

use countint_tests::scenario::{Step, matches, parse};
use countint_tests::{Server, env, reply};
use std::fs;
use std::path::PathBuf;

/// A fenced block of a page.
struct Block {
    resp3: bool,
    steps: Vec<Step>,
}

/// README.md and every page under docs.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![env::workspace().join("README.md")];
    let mut directories = vec![env::workspace().join("docs")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("the directory of a page can be read") {
            let path = entry.expect("it can be read").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

fn blocks(text: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line));
    while let Some((start, line)) = lines.next() {
        let Some(info) = line.trim_start().strip_prefix("```") else {
            continue;
        };
        let block: Vec<(usize, &str)> = lines
            .by_ref()
            .take_while(|(_, line)| line.trim() != "```")
            .collect();
        let words: Vec<&str> = info.split_whitespace().collect();
        let resp3 = match words.as_slice() {
            ["redis"] => false,
            ["redis", "resp3"] => true,
            ["redis", ..] => return Err(format!("{start}: an unknown mark: {info}")),
            _ => continue,
        };
        let steps = parse(block.into_iter())?;
        if steps.is_empty() {
            return Err(format!("{start}: an empty transcript"));
        }
        blocks.push(Block { resp3, steps });
    }
    Ok(blocks)
}

#[test]
fn the_examples_come_out_as_printed() {
    let server = Server::start();
    let mut failed = Vec::new();
    for page in pages() {
        let name = page
            .strip_prefix(env::workspace())
            .expect("a page of the repository")
            .display()
            .to_string();
        let text = fs::read_to_string(&page).expect("a page can be read");
        let (mut resp2, mut resp3) = (server.client(), server.client3());
        resp2.ok("FLUSHALL");
        let blocks = match blocks(&text) {
            Ok(blocks) => blocks,
            Err(why) => {
                failed.push(format!("{name}:{why}"));
                continue;
            }
        };
        for Block { resp3: new, steps } in blocks {
            let client = if new { &mut resp3 } else { &mut resp2 };
            for step in steps {
                let got = reply::format(&client.call(&step.args));
                if !matches(&step.reply, &got) {
                    let expected = &step.reply;
                    failed.push(format!(
                        "{name}:{} > {}\nprinted: {expected}\n    got: {got}",
                        step.line, step.command
                    ));
                }
            }
        }
    }
    assert!(
        failed.is_empty(),
        "{} examples differ:\n\n{}",
        failed.len(),
        failed.join("\n\n")
    );
}

/// The page of a command, with an example of it that the test above runs.
pub fn page(command: &str) -> Result<String, String> {
    let path = env::workspace().join(format!("docs/commands/{command}.md"));
    let text =
        fs::read_to_string(path).map_err(|_| format!("docs/commands/{command}.md is missing"))?;
    let shown = blocks(&text)?
        .iter()
        .flat_map(|block| &block.steps)
        .any(|step| step.args[0].eq_ignore_ascii_case(command.as_bytes()));
    if !shown {
        return Err(format!("docs/commands/{command}.md shows no example of it"));
    }
    Ok(text)
}
