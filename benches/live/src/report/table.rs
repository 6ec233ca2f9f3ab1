//! Markdown tables and the formats of their numbers.

/// A Markdown table.
pub struct Table(String);

impl Table {
    /// A table with these column headings.
    pub fn new(columns: &[&str]) -> Table {
        let mut table = Table(String::new());
        table.row(columns);
        table.0.push_str(&"|---".repeat(columns.len()));
        table.0.push_str("|\n");
        table
    }

    /// Appends a row.
    pub fn row(&mut self, cells: &[impl AsRef<str>]) {
        for cell in cells {
            self.0.push_str("| ");
            self.0.push_str(cell.as_ref());
            self.0.push(' ');
        }
        self.0.push_str("|\n");
    }

    /// The Markdown.
    pub fn finish(self) -> String {
        self.0
    }
}

/// A whole number with thousands separators.
pub fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Three significant digits.
pub fn three_digits(value: f64) -> String {
    format!("{value:.*}", three_digit_decimals(value))
}

/// The number of decimals that three significant digits need.
pub fn three_digit_decimals(value: f64) -> usize {
    match value {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_a_heading_and_rows() {
        let mut table = Table::new(&["a", "b"]);
        table.row(&["1".to_string(), String::new()]);
        assert_eq!(table.finish(), "| a | b |\n|---|---|\n| 1 |  |\n");
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!(thousands(0.4), "0");
        assert_eq!(thousands(999.0), "999");
        assert_eq!(thousands(1_234_567.2), "1,234,567");
    }

    #[test]
    fn three_significant_digits_are_shown() {
        let shown = [488.2, 56.44, 8.25, 0.2581].map(three_digits);
        assert_eq!(shown, ["488", "56.4", "8.25", "0.258"]);
    }
}
