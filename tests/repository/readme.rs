//! README.md and its translation stay short and show figures and a chart.

use crate::figures::{check_line, figures};
use countint_tests::env;
use std::fs;

#[test]
fn readme_is_short_and_quotes_figures_and_a_chart() {
    let figures = figures();
    for name in ["README.md", "README.zh-CN.md"] {
        let text = fs::read_to_string(env::workspace().join(name)).expect("it can be read");
        let lines = text.lines().count();
        assert!(
            lines <= 150,
            "{name} has {lines} lines: move details to docs/"
        );
        let quotes: usize = text.lines().map(|line| check_line(line, &figures).1).sum();
        assert!(quotes >= 3, "{name} quotes {quotes} figures");
        assert!(text.contains("](docs/charts/"), "{name} shows a chart");
    }
}
