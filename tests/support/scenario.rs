//! Scenarios: command lines and the replies as redis-cli prints them, read from text files.
//!
//! ```text
//! # A comment.
//! > CINT.SET k LEN 2 0 1
//! OK
//! > RBM.INFO r
//! 1) "encoding"
//! ...
//! @resp3
//! 1# "encoding" => ...
//! @let bad +1 01 " 1"
//! > CINT.GET k {bad}
//! (error) ERR value is not an integer or out of range
//! ```
//!
//! A reply ends at a blank line, a comment, a directive or the next command. `@resp3` begins the RESP3 reply where it
//! differs. `@let name value ...` defines a list, as does `@let name | several words | ... |` for values with blanks. A step
//! that contains `{name}` runs once for each value. `<number>` in a reply matches any digits.

use crate::{env, line};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A command and its expected reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its line in the file, counted from 1.
    pub line: usize,
    /// The command, as typed into redis-cli.
    pub command: String,
    /// Its arguments.
    pub args: Vec<Vec<u8>>,
    /// The output of redis-cli.
    pub reply: String,
    /// The output of redis-cli in RESP3, where it differs.
    pub reply3: Option<String>,
}

/// The steps of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The file's name.
    pub name: String,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

impl Scenario {
    /// All scenarios, by name.
    ///
    /// # Panics
    /// When a file cannot be read or parsed.
    pub fn all() -> Vec<Scenario> {
        let mut all: Vec<Scenario> = fs::read_dir(env::workspace().join("tests/scenarios"))
            .expect("tests/scenarios is there")
            .map(|entry| Scenario::read(&entry.expect("the directory can be read").path()))
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        assert!(!all.is_empty(), "tests/scenarios is empty");
        all
    }

    fn read(path: &Path) -> Scenario {
        let name = path
            .file_name()
            .expect("a file has a name")
            .to_string_lossy();
        let text = fs::read_to_string(path).unwrap_or_else(|why| panic!("{name}: {why}"));
        let steps = parse(text.lines().enumerate().map(|(i, line)| (i + 1, line)))
            .unwrap_or_else(|why| panic!("{name}:{why}"));
        assert!(!steps.is_empty(), "{name} has no step");
        Scenario {
            name: name.into_owned(),
            steps,
        }
    }
}

#[derive(Default)]
struct Draft {
    line: usize,
    command: String,
    reply: Vec<String>,
    reply3: Option<Vec<String>>,
}

/// Parses numbered lines into steps.
///
/// # Errors
/// The number of an invalid line and the reason.
pub fn parse<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Result<Vec<Step>, String> {
    let mut lists = BTreeMap::new();
    let mut steps = Vec::new();
    let mut draft: Option<Draft> = None;
    for (number, text) in lines {
        let fail = |why: &str| format!("{number}: {why}: {text}");
        let prompt = text
            .strip_prefix("> ")
            .or_else(|| text.strip_prefix("127.0.0.1:6379> "));
        let directive = text
            .strip_prefix('@')
            .map(|words| words.split_once(' ').unwrap_or((words, "")));
        if directive == Some(("resp3", "")) {
            let open = draft.as_mut().ok_or_else(|| fail("no command before it"))?;
            open.reply3 = Some(Vec::new());
        } else if prompt.is_some()
            || directive.is_some()
            || text.trim().is_empty()
            || text.starts_with('#')
        {
            if let Some(done) = draft.take() {
                expand(&done, &lists, &mut steps)?;
            }
            match (prompt, directive) {
                (Some(command), _) => {
                    draft = Some(Draft {
                        line: number,
                        command: command.to_owned(),
                        ..Draft::default()
                    });
                }
                (None, Some(("let", list))) => {
                    let (name, values) = list.split_once(' ').ok_or_else(|| fail("no values"))?;
                    let values = list_values(values).map_err(fail)?;
                    lists.insert(format!("{{{name}}}"), values);
                }
                (None, Some(_)) => return Err(fail("an unknown directive")),
                (None, None) => {}
            }
        } else {
            let open = draft
                .as_mut()
                .ok_or_else(|| fail("a reply without a command"))?;
            let reply = open.reply3.as_mut().unwrap_or(&mut open.reply);
            reply.push(text.to_owned());
        }
    }
    if let Some(done) = draft {
        expand(&done, &lists, &mut steps)?;
    }
    Ok(steps)
}

fn list_values(text: &str) -> Result<Vec<String>, &'static str> {
    if let Some(pieces) = text.strip_prefix('|') {
        let pieces = pieces
            .strip_suffix('|')
            .ok_or("the list does not end with |")?;
        return Ok(pieces
            .split('|')
            .map(|piece| piece.trim().to_owned())
            .collect());
    }
    let values = line::split(text)?;
    Ok(values.iter().map(|value| line::quote(value)).collect())
}

/// Adds one step, or one for each value of the list that the command contains.
fn expand(
    draft: &Draft,
    lists: &BTreeMap<String, Vec<String>>,
    steps: &mut Vec<Step>,
) -> Result<(), String> {
    let fail = |why: &str| format!("{}: {why}: {}", draft.line, draft.command);
    if draft.reply.is_empty() {
        return Err(fail("no reply given"));
    }
    let mut mentioned = lists
        .iter()
        .filter(|(name, _)| draft.command.contains(*name));
    let (name, values) = match mentioned.next() {
        Some((name, values)) => (name.as_str(), values.clone()),
        None => ("\0", vec![String::new()]),
    };
    if mentioned.next().is_some() {
        return Err(fail("more than one list"));
    }
    for value in values {
        let fill = |text: &str| text.replace(name, &value);
        let command = fill(&draft.command);
        steps.push(Step {
            line: draft.line,
            args: line::split(&command).map_err(fail)?,
            reply: fill(&draft.reply.join("\n")),
            reply3: draft.reply3.as_ref().map(|lines| fill(&lines.join("\n"))),
            command,
        });
    }
    Ok(())
}

/// Whether a printed reply matches the expected one; `<number>` in `expected` stands for one or more digits.
pub fn matches(expected: &str, got: &str) -> bool {
    let mut pieces = expected.split("<number>");
    let Some(mut rest) = pieces.next().and_then(|piece| got.strip_prefix(piece)) else {
        return false;
    };
    for piece in pieces {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        if after.len() == rest.len() {
            return false;
        }
        match after.strip_prefix(piece) {
            Some(tail) => rest = tail,
            None => return false,
        }
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::{Step, matches, parse};

    fn read(text: &str) -> Result<Vec<Step>, String> {
        parse(text.lines().enumerate().map(|(i, line)| (i + 1, line)))
    }

    #[test]
    fn reads_steps() {
        let text =
            "# x\n> GET k\n(nil)\n\n127.0.0.1:6379> HGETALL h\n1) a\n2) b\n@resp3\n1# a => b\n";
        let steps = read(text).expect("well formed");
        assert_eq!((steps[0].line, steps[0].command.as_str()), (2, "GET k"));
        assert_eq!(steps[0].reply, "(nil)");
        assert_eq!(steps[1].reply, "1) a\n2) b");
        assert_eq!(steps[1].reply3.as_deref(), Some("1# a => b"));
    }

    #[test]
    fn runs_a_step_for_each_value() {
        let steps =
            read("@let v 1 \"\\x00 \"\n> SET k{v} {v}\n{v}\n@let w | a b | |\n> DEL {w}\n1")
                .expect("well formed");
        assert_eq!(steps.len(), 4);
        assert_eq!(steps[1].args, [&b"SET"[..], b"k\0 ", b"\0 "]);
        assert_eq!(steps[1].reply, "\"\\x00 \"");
        assert_eq!(steps[2].args, [b"DEL", &b"a"[..], b"b"]);
        assert_eq!(steps[3].args, [b"DEL"]);
    }

    #[test]
    fn errors_name_the_line_and_the_reason() {
        for (text, line) in [
            ("(nil)", "1"),
            ("\n> GET k", "2"),
            ("@what", "1"),
            ("> GET \"\nx", "1"),
            ("@resp3", "1"),
        ] {
            let why = read(text).expect_err(text);
            assert!(why.starts_with(line), "{why}");
        }
    }

    #[test]
    fn a_number_stands_for_digits() {
        assert!(matches("a <number> b <number>", "a 12 b 3"));
        for got in ["a  b 3", "a 1 b ", "a 1 b 3x", "x", "a 1 c 3"] {
            assert!(!matches("a <number> b <number>", got), "{got}");
        }
        assert!(matches("a", "a") && !matches("a", "ab") && !matches("ab", "a"));
    }
}
