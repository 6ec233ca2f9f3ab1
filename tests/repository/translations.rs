//! Pages in Chinese keep the commands, numbers, figures, links and structure of the English pages. docs/translations.md has the rules.

use crate::compare::{differences, section_differences, take_link_to};
use crate::elements::{Kind, Page};
use crate::figures::all_pages;
use crate::typography::misprint;
use countint_tests::env;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// How the names of Chinese pages end.
const SUFFIX: &str = ".zh-CN.md";

/// The names of the Chinese pages.
fn chinese_pages() -> Vec<String> {
    let name = |path: PathBuf| {
        let name = path.strip_prefix(env::workspace());
        let name = name.expect("it is in the workspace");
        name.to_str().expect("names are ASCII").to_owned()
    };
    let mut names: Vec<String> = all_pages().into_iter().map(name).collect();
    names.retain(|name| name.ends_with(SUFFIX));
    names.sort();
    assert!(names.len() >= 2, "Chinese pages: {names:?}");
    names
}

#[test]
fn chinese_pages_keep_what_the_english_ones_say() {
    let mut problems = Vec::new();
    for name in chinese_pages() {
        let mut chinese = Page::read(&name).expect("it can be read");
        let original = name.replace(SUFFIX, ".md");
        let Some(mut english) = Page::read(&original) else {
            problems.extend(section_differences(&chinese, Page::read));
            continue;
        };
        let file = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
        problems.extend(take_link_to(&mut english, &file(&name)).err());
        problems.extend(take_link_to(&mut chinese, &file(&original)).err());
        problems.extend(differences(&english, &chinese));
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn chinese_pages_have_no_misprints() {
    let mut problems = Vec::new();
    for name in chinese_pages() {
        let page = Page::read(&name).expect("it can be read");
        for element in &page.elements {
            let problem = misprint(element);
            problems.extend(problem.map(|problem| format!("{}: {problem}", page.place(element))));
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn chinese_pages_use_each_term_of_the_table() {
    let names = chinese_pages();
    let texts = names
        .iter()
        .map(|name| fs::read_to_string(env::workspace().join(name)));
    let text: String = texts.map(|text| text.expect("it can be read")).collect();
    let page = Page::read("docs/translations.md").expect("it can be read");
    let mut sections = page.sections();
    let terms = sections
        .find(|section| section[0].texts[0] == "Terms")
        .expect("there is a section");
    let rows = terms.iter().filter(|element| element.kind == Kind::Row);
    let mut english = BTreeSet::new();
    for row in rows.skip(2) {
        let [term, chinese] = row.texts.as_slice() else {
            panic!("{}: {row:?}", page.place(row));
        };
        assert!(english.insert(term), "{}: again {term}", page.place(row));
        let is_used = !chinese.is_empty() && text.contains(chinese.as_str());
        assert!(is_used, "{}: no page has {chinese}", page.place(row));
    }
    assert!(english.len() > 20, "{english:?}");
}
