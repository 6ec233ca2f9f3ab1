//! Measured numbers in the documentation come from `docs/benchmarks.json`, which `scripts/bench` writes together with
//! `docs/benchmarks.md`.
//!
//! A page quotes a figure in a comment after the number: `8.1 <!-- figure: row.heavy-tail -->`. The comment is an expression
//! of names, numbers and operators (`+ - * /`, separated by spaces, evaluated from left to right). The number must be the
//! value rounded to the digits shown. An integer can end with zeros after at least two significant digits: 620,000 quotes
//! 621,459.
//!
//! After a run of the benchmarks, `UPDATE_PAGES=1 cargo test -p countint-tests --test repository figures` writes the new values into the
//! pages, with as many digits as before.
//!
//! `copied-by-hand` lists the figures that were copied from the page, because the run that wrote the page did not write them yet. A full
//! run leaves no such list.

use countint_tests::env;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

type Figures = BTreeMap<String, f64>;

/// The marker of a quoted figure.
pub const START: &str = "<!-- figure:";
pub const END: &str = "-->";

fn docs() -> PathBuf {
    env::workspace().join("docs")
}

/// The field of the file with the names of the copied figures.
const COPIED: &str = "copied-by-hand";

fn file() -> BTreeMap<String, Json> {
    let text = fs::read_to_string(docs().join("benchmarks.json")).expect("the figures are there");
    serde_json::from_str(&text).expect("the figures are an object")
}

pub fn figures() -> Figures {
    let figures = file().into_iter().filter(|(name, _)| name != COPIED);
    figures
        .map(|(name, value)| {
            let number = value.as_f64();
            let number = number.unwrap_or_else(|| panic!("{name} is not a number: {value}"));
            (name, number)
        })
        .collect()
}

#[test]
fn copied_figures_exist() {
    let (file, figures) = (file(), figures());
    let copied = file.get(COPIED).map_or(Vec::new(), |names| {
        let names = names.as_array().expect("the copied figures are a list");
        names.iter().map(|name| name.as_str()).collect()
    });
    for name in copied {
        let name = name.expect("a copied figure is named");
        assert!(figures.contains_key(name), "there is no figure {name}");
    }
}

/// The Markdown files in the root, and those under docs.
pub fn all_pages() -> Vec<PathBuf> {
    let mut all = Vec::new();
    pages(env::workspace(), false, &mut all);
    pages(&docs(), true, &mut all);
    all
}

/// Adds the Markdown files of a directory and, if `deep`, of its subdirectories.
fn pages(directory: &Path, deep: bool, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory can be read") {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() && deep {
            self::pages(&path, deep, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

/// The value of an expression of figures.
fn evaluate(expression: &str, figures: &Figures) -> Result<f64, String> {
    let term = |word: &str| {
        let number = word.replace(',', "").parse().ok();
        number
            .or_else(|| figures.get(word).copied())
            .ok_or_else(|| format!("there is no figure `{word}`"))
    };
    let mut words = expression.split_whitespace();
    let mut value = term(words.next().ok_or("an empty expression")?)?;
    while let Some(operator) = words.next() {
        let operand = term(words.next().ok_or("an operator without an operand")?)?;
        value = match operator {
            "+" => value + operand,
            "-" => value - operand,
            "*" => value * operand,
            "/" => value / operand,
            other => return Err(format!("`{other}` is not an operator")),
        };
    }
    Ok(value)
}

/// The last number in `text`, as it is printed.
fn last_number(text: &str) -> Option<&str> {
    let end = text.rfind(|c: char| c.is_ascii_digit())? + 1;
    let is_part = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
    let start = text[..end].rfind(|c| !is_part(c)).map_or(0, |at| {
        at + text[at..].chars().next().map_or(1, char::len_utf8)
    });
    Some(text[start..end].trim_start_matches(['.', ',']))
}

/// Whether `printed` is `value` rounded to the digits shown.
fn is_rounded(printed: &str, value: f64) -> bool {
    let plain = printed.replace(',', "");
    let Ok(number) = plain.parse::<f64>() else {
        return false;
    };
    let decimals = plain
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len());
    if format!("{value:.decimals$}") == plain {
        return true;
    }
    let digits = plain.trim_end_matches('0').len();
    let unit = 10f64.powi((plain.len() - digits) as i32);
    decimals == 0 && digits >= 2 && (value - number).abs() <= unit / 2.0
}

/// The quotes of a line, each as the text before its comment and the expression in it, and the rest of the line. A comment that does not end
/// is in the rest.
fn quotes(line: &str) -> (Vec<(&str, &str)>, &str) {
    let (mut quotes, mut rest) = (Vec::new(), line);
    while let Some((before, after)) = rest.split_once(START)
        && let Some((expression, after)) = after.split_once(END)
    {
        quotes.push((before, expression));
        rest = after;
    }
    (quotes, rest)
}

/// The errors of the figures that a line quotes, and the number of figures.
pub fn check_line(line: &str, figures: &Figures) -> (Vec<String>, usize) {
    let (quotes, rest) = quotes(line);
    let (mut problems, mut count) = (Vec::new(), quotes.len());
    for (before, expression) in quotes {
        let expression = expression.trim();
        match (last_number(before), evaluate(expression, figures)) {
            (Some(printed), Ok(value)) if is_rounded(printed, value) => {}
            (Some(printed), Ok(value)) => {
                problems.push(format!("{printed} is printed, but {expression} = {value}"));
            }
            (None, Ok(value)) => problems.push(format!("no number before {expression} = {value}")),
            (_, Err(problem)) => problems.push(problem),
        }
    }
    if rest.contains(START) {
        count += 1;
        problems.push("a figure's comment does not end on its line".into());
    }
    (problems, count)
}

/// A value with as many digits as a printed number: decimals, or digits before zeros.
fn print_as(printed: &str, value: f64) -> String {
    let plain = printed.replace(',', "");
    let text = match plain.split_once('.') {
        Some((_, decimals)) => format!("{value:.*}", decimals.len()),
        None => {
            let digits = plain.trim_end_matches('0').len().max(2);
            let length = format!("{value:.0}").len();
            // 699,870 is not 700,000, which has one digit only.
            let texts = (digits..=length.max(digits)).map(|digits| {
                let unit = 10f64.powi(length.saturating_sub(digits) as i32);
                format!("{:.0}", (value / unit).round() * unit)
            });
            let mut texts = texts.filter(|text| is_rounded(text, value));
            texts.next().unwrap_or_else(|| format!("{value:.0}"))
        }
    };
    with_separators(&text)
}

/// A number with separators between groups of three digits.
fn with_separators(text: &str) -> String {
    let (whole, decimals) = match text.split_once('.') {
        Some((whole, decimals)) => (whole, format!(".{decimals}")),
        None => (text, String::new()),
    };
    let mut separated = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            separated.push(',');
        }
        separated.push(digit);
    }
    separated + &decimals
}

/// A line with the values of the figures that it quotes.
fn updated_line(line: &str, figures: &Figures) -> String {
    let (quotes, rest) = quotes(line);
    let mut updated = String::new();
    for (before, expression) in quotes {
        let value = evaluate(expression.trim(), figures).ok();
        match (last_number(before), value) {
            (Some(printed), Some(value)) if !is_rounded(printed, value) => {
                let at = before.rfind(printed).unwrap_or(before.len());
                updated += &before[..at];
                updated += &print_as(printed, value);
                updated += &before[at + printed.len()..];
            }
            _ => updated += before,
        }
        updated += &format!("{START}{expression}{END}");
    }
    updated + rest
}

/// Writes the values of the figures into the pages that quote them.
fn update_pages(figures: &Figures) {
    for page in all_pages() {
        let text = fs::read_to_string(&page).expect("a page can be read");
        let lines = text.split_inclusive('\n');
        let updated: String = lines.map(|line| updated_line(line, figures)).collect();
        if updated != text {
            fs::write(&page, updated).expect("a page can be written");
        }
    }
}

#[test]
fn quoted_figures_are_those_of_the_benchmarks() {
    let figures = figures();
    if env::updates_pages() {
        update_pages(&figures);
    }
    let (mut problems, mut quotes) = (Vec::new(), 0);
    for page in all_pages() {
        let text = fs::read_to_string(&page).expect("a page can be read");
        for (i, line) in text.lines().enumerate() {
            let (found, count) = check_line(line, &figures);
            quotes += count;
            let place = format!("{}:{}", page.display(), i + 1);
            problems.extend(
                found
                    .into_iter()
                    .map(|problem| format!("{place}: {problem}")),
            );
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    assert!(quotes > 20, "only {quotes} figures are quoted");
}

#[test]
fn every_figure_is_on_the_page_of_the_benchmarks() {
    let page = fs::read_to_string(docs().join("benchmarks.md")).expect("the page can be read");
    let page = page.replace(',', "");
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let numbers: std::collections::HashSet<&str> = page
        .split(|c| !is_digit(c))
        .map(|number| number.trim_matches('.'))
        .collect();
    for (name, value) in figures() {
        let shown = (0..=3).any(|decimals| {
            let text = format!("{value:.decimals$}");
            text.parse() == Ok(value) && numbers.contains(text.as_str())
        });
        assert!(shown, "{name}: {value} is not in docs/benchmarks.md");
    }
}

#[test]
fn values_are_updated_with_as_many_digits() {
    for (printed, value, updated) in [
        ("8.1", 9.26, "9.3"),
        ("1,234.5", 999.96, "1,000.0"),
        ("440,000", 735_737.0, "740,000"),
        ("8,980", 12_345.0, "12,300"),
        ("440,000", 699_870.0, "699,900"),
        ("13", 7.4, "7"),
        ("96", 104.2, "104"),
        ("960", 1_234.0, "1,200"),
        ("9,600", 12_340.0, "12,000"),
        ("960", 12_340.0, "12,000"),
    ] {
        let text = print_as(printed, value);
        assert_eq!(text, updated);
        assert!(is_rounded(&text, value), "{text}");
    }
    let figures = Figures::from([("a".into(), 6.0), ("b".into(), 4.0)]);
    for (line, updated) in [
        (
            "5 <!-- figure: a --> and 4.0 <!-- figure: b -->, **5.0 <!-- figure: a -->**\n",
            "6 <!-- figure: a --> and 4.0 <!-- figure: b -->, **6.0 <!-- figure: a -->**\n",
        ),
        // A figure without a number.
        (
            "7 <!-- figure: a + 1 --> and <!-- figure: b -->\n",
            "7 <!-- figure: a + 1 --> and <!-- figure: b -->\n",
        ),
    ] {
        assert_eq!(updated_line(line, &figures), updated);
    }
}

#[test]
fn expressions_are_evaluated_from_left_to_right() {
    let figures = Figures::from([("a.b-c".into(), 6.0), ("d".into(), 4.0)]);
    assert_eq!(evaluate("a.b-c", &figures), Ok(6.0));
    assert_eq!(evaluate("a.b-c - d * 1,000", &figures), Ok(2000.0));
    assert_eq!(evaluate("a.b-c / d", &figures), Ok(1.5));
    assert!(evaluate("e", &figures).is_err());
    assert!(evaluate("d d", &figures).is_err());
    assert!(evaluate("", &figures).is_err());
}

#[test]
fn a_number_must_be_rounded_correctly() {
    for (printed, value) in [
        ("8.1", 8.13),
        ("13", 13.07),
        ("620,000", 621_459.0),
        ("1,000", 999.7),
        ("10", 9.9),
    ] {
        assert!(is_rounded(printed, value), "{printed} {value}");
    }
    for (printed, value) in [
        ("8.2", 8.13),
        ("9", 8.13),
        ("600,000", 621_459.0),
        ("8.130", 8.1),
        ("100", 136.0),
    ] {
        assert!(!is_rounded(printed, value), "{printed} {value}");
    }
}

#[test]
fn a_figure_belongs_to_the_number_before_it() {
    let figures = Figures::from([("a".into(), 8.13), ("b".into(), 25.58)]);
    let good = "| 5 | **8.1** <!-- figure: a --> | µ 25.6 B <!-- figure: b --> |";
    assert_eq!(check_line(good, &figures), (vec![], 2));
    for bad in [
        "8.2 <!-- figure: a -->",
        "bytes <!-- figure: a -->",
        "8.1 <!-- figure: c -->",
        "8.1 <!-- figure: a",
    ] {
        let (problems, quotes) = check_line(bad, &figures);
        assert_eq!((problems.len(), quotes), (1, 1), "{bad}");
    }
}
