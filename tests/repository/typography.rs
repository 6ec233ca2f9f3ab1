//! The typography of Chinese pages.

use crate::elements::{Element, Kind, cut};

/// The first error in the typography of an element, if any.
pub fn misprint(element: &Element) -> Option<&'static str> {
    let is_chinese = |c: char| ('\u{4e00}'..='\u{9fff}').contains(&c);
    let is_latin = |c: char| c.is_ascii_alphanumeric() || c == '`';
    let is_half_width = |c: char| matches!(c, ',' | '.' | ';' | ':' | '?' | '(' | ')');
    if let Kind::Block(_) | Kind::Comment = element.kind {
        return None;
    }
    if element.height > 1 {
        return Some("a line break, which GitHub shows as a space");
    }
    for text in &element.texts {
        let (text, _) = cut(text, "<!--", "-->");
        let (text, _) = cut(&text, "](", ")");
        let chars: Vec<char> = text
            .chars()
            .filter(|c| !matches!(c, '[' | '*' | '!'))
            .collect();
        for &c in &chars {
            if ('\u{ff01}'..='\u{ff5e}').contains(&c) && c.is_alphanumeric() {
                return Some("a full-width letter or digit");
            }
        }
        for pair in chars.windows(2) {
            let other = match (is_chinese(pair[0]), is_chinese(pair[1])) {
                (true, false) => pair[1],
                (false, true) => pair[0],
                _ => continue,
            };
            if is_latin(other) {
                return Some("no space between Chinese and Latin characters");
            }
            if is_half_width(other) {
                return Some("half-width punctuation beside a Chinese character");
            }
        }
    }
    None
}

#[test]
fn every_misprint_is_found() {
    let found = |text: &str| crate::elements::elements(text).iter().find_map(misprint);
    for good in [
        "**CountInt**（`CINT`）：一个键，40 位。",
        "[加载模块](a.md)。包括 [CountInt](b.md)，8.1 <!-- figure: a --> 倍",
        "```sh\n中a\n```",
        "![图](a.svg)",
    ] {
        assert_eq!(found(good), None, "{good}");
    }
    for bad in [
        "用`GET`读取",
        "占 8字节",
        "包括[CountInt](a.md)",
        "见 [Rust](a.md)文档",
        "读取,写入",
        "读取(一次）",
        "占 ８ 字节",
        "第一行\n第二行",
        "| a | 用redis |",
    ] {
        assert!(found(bad).is_some(), "{bad}");
    }
}
