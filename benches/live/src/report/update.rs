//! Replaces sections of a page that an earlier run has written, and keeps the others.
//!
//! Only those on countd can be replaced: they have no charts over several sections and no rows in the summary. What a section no longer has,
//! a threshold or a figure of another name, stays until a full run writes the page.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::error::Result;
use crate::report::check::Check;
use crate::report::page::{METHOD, NOWHERE, Report, SLOWER, THRESHOLDS};

/// The beginning of a heading.
const HEADING: &str = "## ";

/// The list of figures that were copied from the page, because an earlier version did not write them.
const COPIED: &str = "copied-by-hand";

/// A report that an earlier run has written.
pub struct Earlier {
    page: String,
    figures: String,
}

impl Earlier {
    /// Reads the page `out` and the figures beside it.
    ///
    /// # Errors
    /// A file cannot be read, or is not that of a report.
    pub fn read(out: &Path) -> Result<Earlier> {
        let read = |path: &Path| {
            fs::read_to_string(path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        let earlier = Earlier {
            page: read(out)?,
            figures: read(&out.with_extension("json"))?,
        };
        let parts = Parts::of(&earlier.page);
        for heading in [SLOWER, METHOD, THRESHOLDS] {
            parts.position(heading)?;
        }
        parse(&earlier.figures)?;
        Ok(earlier)
    }

    /// The page and the figures with those of a run.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn updated(&self, report: &Report, run: &str) -> Result<(String, String)> {
        let page = page(&self.page, report, run)?;
        Ok((page, figures(&self.figures, report)?))
    }
}

/// Figures by name.
fn parse(figures: &str) -> Result<BTreeMap<String, Value>> {
    Ok(serde_json::from_str(figures)?)
}

/// A page: what precedes the first heading, then each heading with its text.
struct Parts {
    head: String,
    parts: Vec<(String, String)>,
}

impl Parts {
    fn of(page: &str) -> Parts {
        let mut parts = Parts {
            head: String::new(),
            parts: Vec::new(),
        };
        for line in page.split_inclusive('\n') {
            match line.strip_prefix(HEADING) {
                Some(heading) => parts
                    .parts
                    .push((heading.trim_end().to_owned(), String::new())),
                None => match parts.parts.last_mut() {
                    Some((_, text)) => text.push_str(line),
                    None => parts.head.push_str(line),
                },
            }
        }
        parts
    }

    fn to_page(&self) -> String {
        let mut page = self.head.clone();
        for (heading, text) in &self.parts {
            page += &format!("{HEADING}{heading}\n{text}");
        }
        page
    }

    fn position(&self, heading: &str) -> Result<usize> {
        let found = self.parts.iter().position(|(known, _)| known == heading);
        found.ok_or_else(|| format!("the page has no section \"{heading}\"").into())
    }

    fn text(&mut self, heading: &str) -> Result<&mut String> {
        let position = self.position(heading)?;
        Ok(&mut self.parts[position].1)
    }
}

/// The earlier page with the sections of a run, each of which says of which run it is. Sections that the page does not have come last.
///
/// # Errors
/// It is not a page of an earlier run.
fn page(earlier: &str, report: &Report, run: &str) -> Result<String> {
    let mut page = Parts::of(earlier);
    let mut measured = Parts::of(&report.to_markdown());
    for section in &report.sections {
        let text = measured.text(&section.title)?;
        let text = format!("\n*{run}*\n{text}");
        match page.position(&section.title) {
            Ok(position) => page.parts[position].1 = text,
            Err(_) => {
                let end = page.position(METHOD)?;
                page.parts.insert(end, (section.title.clone(), text));
            }
        }
    }
    let checks: Vec<&Check> = report.checks().collect();
    let remark = |check: &Check| check.worse.then(|| format!("- {}", check.remark()));
    let row = |check: &Check| {
        check
            .met()
            .map(|_| format!("| {} |", check.cells().join(" | ")))
    };
    replace_lines(
        page.text(SLOWER)?,
        &checks,
        |what| format!("- {what}: "),
        remark,
    );
    replace_lines(
        page.text(THRESHOLDS)?,
        &checks,
        |what| format!("| {what} | "),
        row,
    );
    Ok(page.to_page())
}

/// Replaces the line of each check, which begins with `start`, or removes it, or adds it after the last line.
fn replace_lines(
    text: &mut String,
    checks: &[&Check],
    start: impl Fn(&str) -> String,
    line: impl Fn(&Check) -> Option<String>,
) {
    let mut lines: Vec<String> = text.trim_end().lines().map(str::to_owned).collect();
    let end = &text[text.trim_end().len()..];
    for check in checks {
        let start = start(&check.what);
        let known = lines.iter().position(|line| line.starts_with(&start));
        match (known, line(check)) {
            (Some(known), Some(line)) => lines[known] = line,
            (Some(known), None) => drop(lines.remove(known)),
            (None, Some(line)) => {
                lines.retain(|line| line != NOWHERE);
                lines.push(line);
            }
            (None, None) => {}
        }
    }
    *text = lines.join("\n") + end;
}

/// The earlier figures with those of a run.
///
/// # Errors
/// They are not figures.
fn figures(earlier: &str, report: &Report) -> Result<String> {
    let mut figures = parse(earlier)?;
    let measured = parse(&report.figures().to_json()?)?;
    if let Some(Value::Array(names)) = figures.get_mut(COPIED) {
        names.retain(|name| {
            name.as_str()
                .is_some_and(|name| !measured.contains_key(name))
        });
        if names.is_empty() {
            figures.remove(COPIED);
        }
    }
    figures.extend(measured);
    Ok(serde_json::to_string_pretty(&figures)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::section::Section;

    fn report(sections: &[(&str, &str, Vec<Check>)]) -> Report {
        let sections = sections.iter().map(|(title, body, checks)| {
            let mut section = Section {
                title: (*title).into(),
                body: format!("{body}\n"),
                checks: checks
                    .iter()
                    .map(|check| Check::cost(check.what.clone(), check.value, Some(1.5)))
                    .collect(),
                ..Section::default()
            };
            section.figures.add(*title, body.len() as f64, 0);
            section
        });
        Report {
            quick: false,
            warning: None,
            method: format!("{HEADING}{METHOD}\n\nThus.\n"),
            machine: "## Machine and versions\n\nThis one.\n".into(),
            sections: sections.collect(),
        }
    }

    fn cost(what: &str, value: f64) -> Check {
        Check::cost(what.into(), value, None)
    }

    #[test]
    fn sections_are_replaced_and_others_stay() {
        let earlier = report(&[
            ("One", "first", vec![cost("a : b", 1.2)]),
            (
                "Two",
                "second",
                vec![cost("c : d", 1.3), cost("e : f", 0.9)],
            ),
        ]);
        let earlier = earlier.to_markdown();
        let later = report(&[
            ("Two", "later", vec![cost("c : d", 0.7), cost("e : f", 1.6)]),
            ("Three", "new", vec![cost("g : h", 0.5)]),
        ]);
        let updated = page(&earlier, &later, "Of Monday.").unwrap();
        let headings: Vec<_> = updated.lines().filter(|l| l.starts_with("## ")).collect();
        assert_eq!(
            headings[2..6],
            ["## One", "## Two", "## Three", "## How it was measured"]
        );
        assert!(updated.contains("## One\n\nfirst\n"), "{updated}");
        assert!(
            updated.contains("## Two\n\n*Of Monday.*\n\nlater\n"),
            "{updated}"
        );
        assert!(!updated.contains("second"));
        assert!(
            updated.contains("- a : b: 1.200 x\n- e : f: 1.600 x\n\n## One"),
            "{updated}"
        );
        assert!(
            updated.ends_with(
                "| a : b | 1.200 x |  |  | at most 1.5 x | met |\n\
             | c : d | 0.700 x |  |  | at most 1.5 x | met |\n\
             | e : f | 1.600 x |  |  | at most 1.5 x | **not met** |\n\
             | g : h | 0.500 x |  |  | at most 1.5 x | met |\n"
            ),
            "{updated}"
        );
        // The same run again changes nothing.
        assert_eq!(page(&updated, &later, "Of Monday.").unwrap(), updated);
        assert!(page("# Another page\n", &later, "Of Monday.").is_err());
    }

    #[test]
    fn figures_are_replaced_and_others_stay() {
        let later = report(&[("b", "later", Vec::new())]);
        let updated = figures("{\"a\": 1.5, \"b\": 2}", &later).unwrap();
        assert_eq!(updated, "{\n  \"a\": 1.5,\n  \"b\": 5\n}\n");
        assert!(figures("[]", &later).is_err());
        let copied = |names| format!("{{\"b\": 2, \"c\": 3, \"copied-by-hand\": [{names}]}}");
        let updated = figures(&copied("\"b\", \"c\""), &later).unwrap();
        assert!(updated.contains("[\n    \"c\"\n  ]"), "{updated}");
        let updated = figures(&copied("\"b\""), &later).unwrap();
        assert!(!updated.contains("copied"), "{updated}");
    }
}
