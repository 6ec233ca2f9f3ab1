//! Each procedure of docs/countd/procedures.md names tests that exist, and one that executes its commands.

use countint_tests::env::workspace;
use std::fs;
use std::path::PathBuf;

/// The procedures: headings and texts.
fn procedures() -> Vec<(String, String)> {
    let page = fs::read_to_string(workspace().join("docs/countd/procedures.md")).expect("a page");
    let sections = page.split("\n## ").skip(1);
    let parts = sections.map(|section| section.split_once('\n').expect("a heading and a text"));
    parts
        .map(|(heading, text)| (heading.to_owned(), text.to_owned()))
        .collect()
}

/// The tests that a procedure names, such as `cluster::events_count_once_while_slots_move`.
fn tests_of(text: &str) -> Vec<String> {
    let paragraphs = text.split("\n\n");
    let line = paragraphs
        .map(str::trim)
        .find_map(|text| text.strip_prefix("Test: "));
    let names = line.unwrap_or_default().split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

/// Whether countd has a test with this path.
fn exists(test: &str) -> bool {
    let mut path: Vec<&str> = test.split("::").collect();
    let function = path.pop().unwrap_or_default();
    let module: PathBuf = workspace().join("countd/tests").join(path.join("/"));
    let files = [module.with_extension("rs"), module.join("mod.rs")];
    let texts = files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok());
    let mut texts = texts.map(|text| defines(&text, function));
    texts.any(|is_defined| is_defined)
}

/// Whether a source defines a test with this name, also one for each of several kinds of servers.
fn defines(source: &str, function: &str) -> bool {
    let lists = source.split("for_each_store!").skip(1);
    let lists = lists.filter_map(|text| text.split(['}', ';']).next());
    let mut of_stores =
        lists.flat_map(|list| list.split(|c: char| c != '_' && !c.is_alphanumeric()));
    source.contains(&format!("#[test]\nfn {function}()")) || of_stores.any(|case| case == function)
}

#[test]
fn every_procedure_has_its_test() {
    let procedures = procedures();
    assert!(procedures.len() >= 9, "the page has no procedures");
    for (heading, text) in procedures {
        let tests = tests_of(&text);
        assert!(!tests.is_empty(), "{heading} names no test");
        for test in &tests {
            assert!(exists(test), "{heading}: countd has no test {test}");
        }
        let executes = |test: &String| test.starts_with("procedures::");
        let has_commands = text.contains("\n```sh\n");
        assert!(
            !has_commands || tests.iter().any(executes),
            "{heading}: no test of countd/tests/procedures executes its commands"
        );
        // Without commands of its own, it says why.
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = words.join(" ");
        let reasons = [
            "no commands of this section",
            "the commands of that section",
        ];
        let says_why = reasons.iter().any(|reason| text.contains(reason));
        assert!(has_commands || says_why, "{heading} has no commands");
    }
}

/// A procedure that is executed is read from the page by its heading.
#[test]
fn tests_read_the_page() {
    let mut sources = String::new();
    for name in ["countd", "migration", "redis", "takeover"] {
        let file = workspace().join(format!("countd/tests/procedures/{name}.rs"));
        sources.push_str(&fs::read_to_string(file).expect("a source"));
    }
    for (heading, text) in procedures() {
        let is_read = sources.contains(&format!("commands(\"{heading}\")"));
        assert_eq!(is_read, text.contains("\n```sh\n"), "{heading}");
    }
}
