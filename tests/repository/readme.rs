//! README.md stays short and shows figures and a chart.

use crate::figures::{check_line, figures};
use countint_tests::env;
use std::fs;

#[test]
fn readme_is_short_and_quotes_figures_and_a_chart() {
    let text = fs::read_to_string(env::workspace().join("README.md")).expect("it can be read");
    let lines = text.lines().count();
    assert!(
        lines <= 150,
        "README.md has {lines} lines: move details to docs/"
    );
    let figures = figures();
    let quotes: usize = text.lines().map(|line| check_line(line, &figures).1).sum();
    assert!(quotes >= 3, "README.md quotes {quotes} figures");
    assert!(text.contains("](docs/charts/"), "README.md shows a chart");
}
