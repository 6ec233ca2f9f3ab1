//! Named figures: the numbers of the page that other documents quote, stored in a JSON file.
//!
//! A document quotes a figure as `8.1 <!-- figure: row.heavy-tail -->`. The repository's tests compare the two.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::Result;

/// Figures by name.
#[derive(Default)]
pub struct Figures(BTreeMap<String, Value>);

impl Figures {
    /// Adds a figure, rounded half to even to the decimals of the page, as `format!` does.
    pub fn add(&mut self, name: impl Into<String>, value: f64, decimals: usize) {
        let factor = 10f64.powi(decimals as i32);
        let rounded = match decimals {
            0 => Value::from(value.round_ties_even() as u64),
            _ => Value::from((value * factor).round_ties_even() / factor),
        };
        self.0.insert(name.into(), rounded);
    }

    /// Adds all figures of another section.
    pub fn extend(&mut self, other: &Figures) {
        self.0.extend(
            other
                .0
                .iter()
                .map(|(name, value)| (name.clone(), value.clone())),
        );
    }

    /// The file: one figure a line, sorted by name.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(&self.0)? + "\n")
    }
}

/// A label as a part of a name: lower case, with hyphens between words.
pub fn slug(label: &str) -> String {
    let words = label.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("-").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_rounded_and_sorted() {
        let mut figures = Figures::default();
        figures.add("b", 8.1314, 2);
        figures.add("a", 598_515.4, 0);
        figures.add("c", 197_628.5, 0);
        assert_eq!(
            figures.to_json().unwrap(),
            "{\n  \"a\": 598515,\n  \"b\": 8.13,\n  \"c\": 197628\n}\n"
        );
    }

    #[test]
    fn labels_become_parts_of_names() {
        assert_eq!(slug("MULTI, five HINCRBY, EXEC"), "multi-five-hincrby-exec");
        assert_eq!(slug("CTAB.MREAD 5"), "ctab-mread-5");
    }
}
