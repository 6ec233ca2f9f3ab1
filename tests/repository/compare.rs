//! The differences between a translation and the English pages. docs/translations.md has the rules.

use crate::elements::{Element, Kind, Page, Shared, cut, resolve, shared};
use crate::links::fragment;

/// The marker of the English section that a section of a page of parts translates.
const FROM: &str = "<!-- from:";

/// Removes the paragraph below the title, which must link to another page.
pub fn take_link_to(page: &mut Page, other: &str) -> Result<(), String> {
    let link = format!("]({other})");
    let is_link =
        |element: &Element| element.kind == Kind::Paragraph && element.texts[0].contains(&link);
    if !page.elements.get(1).is_some_and(is_link) {
        return Err(format!("{}: no link to {other} below the title", page.name));
    }
    page.elements.remove(1);
    Ok(())
}

/// The differences between a page and its translation. After a difference in structure, the rest is not compared.
pub fn differences(english: &Page, chinese: &Page) -> Vec<String> {
    let mut found = Vec::new();
    let mut pair = (english.elements.iter(), chinese.elements.iter());
    loop {
        let (one, other) = match (pair.0.next(), pair.1.next()) {
            (Some(one), Some(other)) => (one, other),
            (Some(one), None) => {
                found.push(format!("{} is not translated", english.place(one)));
                return found;
            }
            (None, Some(other)) => {
                found.push(format!("{} translates nothing", chinese.place(other)));
                return found;
            }
            (None, None) => return found,
        };
        let (place, source) = (chinese.place(other), english.place(one));
        let shape =
            |element: &Element| format!("{:?}, {} cells", element.kind, element.texts.len());
        if shape(one) != shape(other) {
            found.push(format!(
                "{place} is {}, but {source} is {}",
                shape(other),
                shape(one)
            ));
            return found;
        }
        if let Kind::Block(_) = one.kind {
            if one.texts != other.texts {
                found.push(format!("{place}: the code is not that of {source}"));
            }
            continue;
        }
        for (one, other) in one.texts.iter().zip(&other.texts) {
            let one = shared(&english.name, one);
            let other = shared(&chinese.name, other);
            let (missing, added) = (minus(&one, &other), minus(&other, &one));
            if !missing.is_empty() || !added.is_empty() {
                found.push(format!(
                    "{place} lacks {missing:?} and adds {added:?} ({source})"
                ));
            }
        }
    }
}

/// The parts in `all` that `other` does not have, or has fewer times.
fn minus(all: &[Shared], other: &[Shared]) -> Vec<Shared> {
    let mut rest = other.to_vec();
    let mut found = all.to_vec();
    found.retain(|part| match rest.iter().position(|other| other == part) {
        Some(at) => {
            rest.swap_remove(at);
            false
        }
        None => true,
    });
    found
}

/// The differences between the sections of a page of parts and those that its comments name. `read` reads an English page.
pub fn section_differences(chinese: &Page, read: impl Fn(&str) -> Option<Page>) -> Vec<String> {
    let sections = chinese.sections();
    let below_title = sections.filter(|section| section[0].kind != Kind::Heading(1));
    below_title
        .flat_map(|section| {
            let found = part_differences(chinese, section, &read);
            let found = found.unwrap_or_else(|problem| vec![problem]);
            let place = chinese.place(&section[0]);
            found
                .into_iter()
                .map(move |problem| format!("{place}: {problem}"))
        })
        .collect()
}

fn part_differences(
    chinese: &Page,
    section: &[Element],
    read: &impl Fn(&str) -> Option<Page>,
) -> Result<Vec<String>, String> {
    let comment = section
        .get(1)
        .filter(|element| element.kind == Kind::Comment);
    let source = comment.and_then(|comment| cut(&comment.texts[0], FROM, "-->").1.pop());
    let source = source.ok_or("no comment names the English section")?;
    let path = resolve(&chinese.name, &source);
    let (name, heading) = path.split_once('#').ok_or("no heading is named")?;
    let english = read(name).ok_or_else(|| format!("there is no {name}"))?;
    let mut sections = english.sections();
    let original = sections
        .find(|section| fragment(&section[0].texts[0]) == heading)
        .ok_or_else(|| format!("no heading is {path}"))?;
    let mut found = Vec::new();
    if !blocks(original).starts_with(&blocks(section)) {
        found.push(format!("its blocks are not the first ones of {path}"));
    }
    let known = parts(&english, original);
    let mut added = parts(chinese, section);
    added.retain(|part| !known.contains(part));
    let added = added.iter();
    found.extend(added.map(|part| format!("{part:?} is not in {path}")));
    Ok(found)
}

/// The fenced blocks of a section.
fn blocks(section: &[Element]) -> Vec<(&Kind, &[String])> {
    let blocks = section
        .iter()
        .filter(|element| matches!(element.kind, Kind::Block(_)));
    blocks
        .map(|block| (&block.kind, block.texts.as_slice()))
        .collect()
}

/// The numbers, figures and links in the text of a section.
fn parts(page: &Page, section: &[Element]) -> Vec<Shared> {
    let texts = section
        .iter()
        .filter(|element| !matches!(element.kind, Kind::Block(_) | Kind::Comment));
    texts
        .flat_map(|element| &element.texts)
        .flat_map(|text| shared(&page.name, text))
        .filter(|part| !matches!(part, Shared::Code(_)))
        .collect()
}

const ENGLISH: &str = "# T\n\n[中文](a.zh-CN.md)\n\nUse `A` and `B`, 1,000 times,\nas in [c](c.md#d).\n\n- one 2^40-1\n\n| a | b |\n|---|---|\n\
                       | x | 8.1 <!-- figure: r --> |\n\n```sh\nrun  # comment\n```\n\n## End\n\n```redis\n> PING\nPONG\n```\n";
const CHINESE: &str = "# 题\n\n[English](a.md)\n\n使用 [丙](c.md#d) 中的 `B` 和 `A` 1,000 次。\n\n- 一 2^40-1\n\n| 甲 | 乙 |\n|---|---|\n\
                       | 丁 | 8.1 <!-- figure: r --> |\n\n```sh\nrun  # 注释\n```\n\n## 尾\n\n```redis\n> PING\nPONG\n```\n";

#[test]
fn every_difference_from_the_english_page_is_found() {
    let compare = |chinese: &str| {
        let mut pages = (Page::new("a.md", ENGLISH), Page::new("a.zh-CN.md", chinese));
        let mut found: Vec<String> = take_link_to(&mut pages.0, "a.zh-CN.md")
            .err()
            .into_iter()
            .collect();
        found.extend(take_link_to(&mut pages.1, "a.md").err());
        found.extend(differences(&pages.0, &pages.1));
        found
    };
    assert_eq!(compare(CHINESE), [""; 0]);
    for (from, to) in [
        ("[English](a.md)", "[English](b.md)"),
        ("## 尾", "### 尾"),
        ("## 尾\n", ""),
        ("`B`", "`C`"),
        ("`B` 和 ", ""),
        ("1,000", "1,001"),
        ("c.md#d", "c.md#e"),
        ("- 一", "一"),
        ("2^40-1", "2^40-2"),
        ("8.1 <", "8.2 <"),
        ("figure: r", "figure: s"),
        (" <!-- figure: r -->", ""),
        ("| 丁 |", "| 丁 | 戊 |"),
        ("| 甲 | 乙 |\n", ""),
        ("run  #", "walk  #"),
        ("```redis", "```console"),
        ("> PING", "> ping"),
        ("PONG\n", "PONG\n\n"),
        ("PONG\n```\n", "PONG\n```\n\n更多。\n"),
    ] {
        let changed = CHINESE.replace(from, to);
        assert_ne!(changed, CHINESE, "{from}");
        assert!(!compare(&changed).is_empty(), "{from} to {to} is not found");
    }
    assert!(!compare(CHINESE.split("## 尾").next().expect("a part")).is_empty());
}

#[test]
fn every_difference_from_an_english_section_is_found() {
    let english = "# E\n\n## First part\n\nText 5, [l](../x.md).\n\n```sh\na # one\n```\n\n```sh\nb\n```\n\n## Other\n\n```sh\nc\n```\n";
    let chinese = "# 题\n\n页 7。\n\n## 一\n\n<!-- from: e.md#first-part -->\n\n正文 `z` 5，[链接](../x.md)。\n\n```sh\na # 一\n```\n";
    let compare = |chinese: &str| {
        section_differences(&Page::new("d/z.zh-CN.md", chinese), |name| {
            (name == "d/e.md").then(|| Page::new(name, english))
        })
    };
    assert_eq!(compare(chinese), [""; 0]);
    assert_eq!(
        compare(&format!("{chinese}\n```sh\nb # 二\n```\n")),
        [""; 0]
    );
    for (from, to) in [
        ("<!-- from: e.md#first-part -->\n\n", ""),
        ("e.md#first-part", "f.md#first-part"),
        ("e.md#first-part", "e.md#part"),
        ("e.md#first-part", "e.md"),
        ("e.md#first-part", "e.md#other"),
        ("a # 一", "b"),
        ("```sh", "```console"),
        (" 5，", " 6，"),
        ("../x.md", "../y.md"),
    ] {
        let changed = chinese.replace(from, to);
        assert_ne!(changed, chinese, "{from}");
        assert!(!compare(&changed).is_empty(), "{from} to {to} is not found");
    }
}
