//! The elements of a Markdown page, and the parts of a text that a translation keeps.

use crate::figures::{END, START};
use crate::links::prose;
use countint_tests::{env, page};
use std::fs;

/// A page, with its path from the root.
pub struct Page {
    pub name: String,
    pub elements: Vec<Element>,
}

impl Page {
    /// The page with this text.
    pub fn new(name: &str, text: &str) -> Page {
        Page {
            name: name.to_owned(),
            elements: elements(text),
        }
    }

    /// The page in the repository, if it exists.
    pub fn read(name: &str) -> Option<Page> {
        let text = fs::read_to_string(env::workspace().join(name)).ok()?;
        Some(Page::new(name, &text))
    }

    /// Where an element is, for messages.
    pub fn place(&self, element: &Element) -> String {
        format!("{}:{}", self.name, element.line)
    }

    /// The sections, each with its heading and without its subsections.
    pub fn sections(&self) -> impl Iterator<Item = &[Element]> {
        let is_within = |next: &Element| !matches!(next.kind, Kind::Heading(_));
        self.elements.chunk_by(move |_, next| is_within(next))
    }
}

/// What an element is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// With its level.
    Heading(usize),
    Paragraph,
    /// An item of a list.
    Item,
    /// A row of a table. Each cell is a text.
    Row,
    /// An HTML comment on a line of its own.
    Comment,
    /// A fenced block, with its info string. Its text is the code; in `sh` blocks without comments.
    Block(String),
}

/// An element of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    pub kind: Kind,
    /// The number of its first line, counted from 1.
    pub line: usize,
    /// The number of lines that its text takes.
    pub height: usize,
    /// One text; of a row, one for each cell.
    pub texts: Vec<String>,
}

/// A part of a text that does not depend on its language.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shared {
    /// Inline code.
    Code(String),
    /// The expression of a figure from the benchmarks. Its number is a `Number`.
    Figure(String),
    /// The target of a link or an image.
    Link(String),
    /// A number in digits.
    Number(String),
}

/// The elements of a page, in order.
pub fn elements(text: &str) -> Vec<Element> {
    let mut found: Vec<Element> = Vec::new();
    let mut next = 0;
    for (line, whole) in prose(text) {
        let words = whole.trim();
        if words.is_empty() {
            continue;
        }
        let kind = kind(words);
        let is_open =
            |last: &&mut Element| line == next && matches!(last.kind, Kind::Paragraph | Kind::Item);
        match found.last_mut().filter(is_open) {
            Some(last) if kind == Kind::Paragraph => {
                last.height += 1;
                last.texts[0] += &format!(" {words}");
            }
            _ => found.push(Element {
                texts: texts(&kind, words),
                kind,
                line,
                height: 1,
            }),
        }
        next = line + 1;
    }
    found.extend(page::blocks(text).into_iter().map(block));
    found.sort_by_key(|element| element.line);
    found
}

fn kind(words: &str) -> Kind {
    let level = words.chars().take_while(|c| *c == '#').count();
    let after_digits = words.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = after_digits.len() < words.len() && after_digits.starts_with(". ");
    if words.starts_with("<!--") && words.ends_with(END) {
        Kind::Comment
    } else if level > 0 && words[level..].starts_with(' ') {
        Kind::Heading(level)
    } else if words.starts_with('|') {
        Kind::Row
    } else if words.starts_with("- ") || is_numbered {
        Kind::Item
    } else {
        Kind::Paragraph
    }
}

fn texts(kind: &Kind, words: &str) -> Vec<String> {
    match kind {
        Kind::Heading(level) => vec![words[*level..].trim().to_owned()],
        Kind::Row => {
            let cells = words.strip_prefix('|').unwrap_or(words);
            let cells = cells.strip_suffix('|').unwrap_or(cells);
            cells
                .split('|')
                .map(|cell| cell.trim().to_owned())
                .collect()
        }
        _ => vec![words.to_owned()],
    }
}

fn block(block: page::Block) -> Element {
    let code = |line: &str| match line.split_once(" #") {
        Some((command, _)) if block.mark == "sh" => command.trim_end().to_owned(),
        _ => line.to_owned(),
    };
    let lines: Vec<String> = block.numbered().map(|(_, line)| code(line)).collect();
    Element {
        line: block.line,
        height: lines.len(),
        texts: vec![lines.join("\n")],
        kind: Kind::Block(block.mark),
    }
}

/// A text without the parts between `start` and `end`, and these parts.
pub fn cut(text: &str, start: &str, end: &str) -> (String, Vec<String>) {
    let (mut kept, mut parts, mut rest) = (String::new(), Vec::new(), text);
    while let Some((before, after)) = rest.split_once(start)
        && let Some((part, after)) = after.split_once(end)
    {
        kept += before;
        parts.push(part.trim().to_owned());
        rest = after;
    }
    (kept + rest, parts)
}

/// The parts of a text on a page that a translation keeps, sorted, because the order in a sentence depends on the language.
pub fn shared(page: &str, text: &str) -> Vec<Shared> {
    let (text, figures) = cut(text, START, END);
    let (text, code) = cut(&text, "`", "`");
    let (text, links) = cut(&text, "](", ")");
    let numbers = text.split(|c: char| !c.is_ascii_digit() && c != '.' && c != ',');
    let numbers = numbers.map(|number| number.trim_matches(['.', ',']));
    let numbers = numbers.filter(|number| !number.is_empty());
    let mut found: Vec<Shared> = figures.into_iter().map(Shared::Figure).collect();
    found.extend(code.into_iter().map(Shared::Code));
    found.extend(
        links
            .iter()
            .map(|target| Shared::Link(resolve(page, target))),
    );
    found.extend(numbers.map(|number| Shared::Number(number.to_owned())));
    found.sort();
    found
}

/// The target of a link on a page, as a path from the root. A fragment of the page itself is `#`, because it is the text of a heading.
pub fn resolve(page: &str, target: &str) -> String {
    if target.contains("://") {
        return target.to_owned();
    }
    if target.starts_with('#') {
        return "#".to_owned();
    }
    let mut path: Vec<&str> = page.split('/').collect();
    path.pop();
    for part in target.split('/') {
        if part == ".." {
            path.pop();
        } else {
            path.push(part);
        }
    }
    path.join("/")
}
