//! Relative links in the documentation point to files of the repository, and their fragments to headings.

use crate::figures::all_pages;
use countint_tests::env;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The lines outside fenced blocks, with their numbers.
pub fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

/// The fragment of a heading on GitHub.
pub fn fragment(heading: &str) -> String {
    let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let kept: String = heading.trim().chars().filter(is_kept).collect();
    kept.to_lowercase().replace(' ', "-")
}

fn fragments(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    headings
        .map(|(_, line)| fragment(line.trim_start_matches('#')))
        .collect()
}

/// The targets of the links in a text, with their lines. The text of a link can be on the line before its target.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut targets = Vec::new();
    for (number, line) in prose(text) {
        for part in line.split("](").skip(1) {
            if let Some((target, _)) = part.split_once(')') {
                targets.push((number, target));
            }
        }
    }
    targets
}

/// The error of a link on a page, if any.
fn problem(page: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
    let file = if path.is_empty() {
        page.to_owned()
    } else {
        page.parent()?.join(path)
    };
    if !file.exists() {
        return Some(format!("there is no {target}"));
    }
    if fragment.is_empty() {
        return None;
    }
    let text = fs::read_to_string(&file).unwrap_or_default();
    (!fragments(&text).contains(fragment)).then(|| format!("no heading is {target}"))
}

#[test]
fn relative_links_have_targets() {
    let mut problems = Vec::new();
    for page in all_pages() {
        let text = fs::read_to_string(&page).expect("a page can be read");
        for (line, target) in targets(&text) {
            if let Some(problem) = problem(&page, target) {
                problems.push(format!("{}:{line}: {problem}", page.display()));
            }
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn targets_and_fragments_are_those_of_github() {
    let text = "# A `B_C`: d, e?\n[x](#a-b_c-d-e), [y](z.md)\n```\n# no\n[n](o)\n```\n";
    assert_eq!(targets(text), [(2, "#a-b_c-d-e"), (2, "z.md")]);
    assert_eq!(fragments(text), BTreeSet::from(["a-b_c-d-e".into()]));
    let page = env::workspace().join("README.md");
    assert_eq!(problem(&page, "https://redis.io/#x"), None);
    assert_eq!(problem(&page, "docs"), None);
    assert!(problem(&page, "docs/none.md").is_some());
    assert!(problem(&page, "#no-such-heading").is_some());
}
