//! The measured figures of `docs/benchmarks.json`, from which everything is computed.

use serde_json::Value;
use std::collections::BTreeMap;

/// The figures of the version that is built. `scripts/bench` writes them.
const EMBEDDED: &str = include_str!("../../../../docs/benchmarks.json");

/// Why figures cannot be used.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum FiguresError {
    /// The text is not a JSON object.
    #[error("the figures are not a JSON object: {0}")]
    Malformed(String),
    /// A figure that the model needs is missing, or is not a number of at least 0.
    #[error("there is no figure {0}")]
    Missing(String),
}

/// Measured figures by name.
#[derive(Clone, Debug)]
pub struct Figures(BTreeMap<String, f64>);

impl Figures {
    /// The figures of this version.
    ///
    /// # Errors
    /// The file is damaged, which a test excludes.
    pub fn embedded() -> Result<Figures, FiguresError> {
        Figures::parse(EMBEDDED)
    }

    /// Reads figures from JSON. Fields that are not numbers are ignored.
    ///
    /// # Errors
    /// The text is not a JSON object.
    pub fn parse(text: &str) -> Result<Figures, FiguresError> {
        let fields: BTreeMap<String, Value> = serde_json::from_str(text)
            .map_err(|error| FiguresError::Malformed(error.to_string()))?;
        let numbers = fields
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_f64()?)));
        Ok(Figures(numbers.collect()))
    }

    /// A figure.
    ///
    /// # Errors
    /// It is missing or negative.
    pub fn get(&self, name: &str) -> Result<f64, FiguresError> {
        let found = self.optional(name).filter(|value| *value >= 0.0);
        found.ok_or_else(|| FiguresError::Missing(name.to_owned()))
    }

    /// A figure that a run of the benchmarks may not have measured.
    pub fn optional(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }
}

#[cfg(test)]
impl Figures {
    /// These figures with another value of one of them.
    pub(super) fn with(mut self, name: &str, value: f64) -> Figures {
        self.0.insert(name.to_owned(), value);
        self
    }

    /// These figures without those whose names have a prefix.
    pub(super) fn without(mut self, prefix: &str) -> Figures {
        self.0.retain(|name, _| !name.starts_with(prefix));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_figures_can_be_read() {
        let figures = Figures::embedded().expect("figures");
        assert!(figures.get("countd.single-reads-per-s").expect("a rate") > 0.0);
    }

    #[test]
    fn fields_that_are_not_numbers_are_not_figures() {
        let figures = Figures::parse(r#"{"a": 1.5, "b": ["a"], "c": -1}"#).expect("figures");
        assert_eq!(figures.get("a"), Ok(1.5));
        assert_eq!(figures.optional("b"), None);
        assert_eq!(figures.get("b"), Err(FiguresError::Missing("b".into())));
        assert_eq!(figures.optional("c"), Some(-1.0));
        assert!(figures.get("c").is_err());
        assert!(matches!(
            Figures::parse("[]"),
            Err(FiguresError::Malformed(_))
        ));
    }
}
