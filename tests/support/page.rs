//! The fenced blocks of a Markdown page, in order.

use crate::env;
use std::fs;

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of its opening fence, counted from 1.
    pub line: usize,
    /// The info string of the opening fence, such as `redis resp3`.
    pub mark: String,
    /// The paragraph directly before it, in one line.
    pub lead: String,
    /// Its lines with their numbers, without the indentation of the fence.
    pub lines: Vec<(usize, String)>,
}

impl Block {
    /// Its lines, for [`scenario::parse`](crate::scenario::parse).
    pub fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines
            .iter()
            .map(|(number, line)| (*number, line.as_str()))
    }

    /// Its lines.
    pub fn text(&self) -> String {
        let lines: Vec<&str> = self.numbered().map(|(_, line)| line).collect();
        lines.join("\n")
    }
}

/// The blocks of a page of the repository.
///
/// # Panics
/// When it cannot be read.
pub fn read(page: &str) -> Vec<Block> {
    let text = fs::read_to_string(env::workspace().join(page));
    blocks(&text.unwrap_or_else(|why| panic!("{page}: {why}")))
}

/// The blocks of a text.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut paragraph: Vec<&str> = Vec::new();
    let mut ended = false;
    let mut lines = (1..).zip(text.lines());
    while let Some((start, line)) = lines.next() {
        let words = line.trim_start();
        if let Some(mark) = words.strip_prefix("```") {
            let indentation = line.len() - words.len();
            let inside = lines.by_ref().take_while(|(_, line)| line.trim() != "```");
            let unindented = |line: &str| line.get(indentation..).unwrap_or_default().to_owned();
            blocks.push(Block {
                line: start,
                mark: mark.trim().to_owned(),
                lead: std::mem::take(&mut paragraph).join(" "),
                lines: inside.map(|(i, line)| (i, unindented(line))).collect(),
            });
        } else if words.is_empty() {
            ended = true;
        } else {
            if std::mem::take(&mut ended) || words.starts_with('#') {
                paragraph.clear();
            }
            paragraph.push(words.trim_end());
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::blocks;

    #[test]
    fn reads_blocks_with_the_paragraph_before_them() {
        let text = "# Title\none\n\ntwo\nthree:\n\n```redis resp3\n> PING\n\nPONG\n```\n\
                    - item\n\n   ```sh\n   a\n     b\n   ```\n";
        let found = blocks(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].line, 7);
        assert_eq!(found[0].mark, "redis resp3");
        assert_eq!(found[0].lead, "two three:");
        assert_eq!(found[0].text(), "> PING\n\nPONG");
        assert_eq!(found[0].lines[2], (10, "PONG".to_owned()));
        assert_eq!(
            (found[1].lead.as_str(), found[1].text().as_str()),
            ("- item", "a\n  b")
        );
    }

    #[test]
    fn a_block_without_a_paragraph_has_no_lead() {
        let found = blocks("text\n\n```a\n```\n```b\n```\n");
        assert_eq!(
            (found[0].lead.as_str(), found[1].lead.as_str()),
            ("text", "")
        );
    }
}
