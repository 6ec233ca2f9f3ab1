//! Patterns of keys, such as `praised_by:{id}`.

use crate::domain::ids::Id;
use crate::domain::text::shorten;
use std::str::FromStr;

const PLACEHOLDER: &str = "{id}";

/// A pattern of keys with the ID of the entity in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPattern {
    prefix: String,
    suffix: String,
}

impl FromStr for KeyPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<KeyPattern, String> {
        match text.split(PLACEHOLDER).collect::<Vec<_>>()[..] {
            [prefix, suffix] if !(prefix.is_empty() && suffix.is_empty()) => Ok(KeyPattern {
                prefix: prefix.to_owned(),
                suffix: suffix.to_owned(),
            }),
            _ => Err(format!(
                "a pattern is a key with {PLACEHOLDER} in one place, such as praised_by:{PLACEHOLDER}"
            )),
        }
    }
}

impl std::fmt::Display for KeyPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{PLACEHOLDER}{}", self.prefix, self.suffix)
    }
}

impl KeyPattern {
    /// The pattern for `SCAN`.
    pub fn glob(&self) -> String {
        let escape = |text: &str| {
            let mut escaped = String::new();
            for character in text.chars() {
                if matches!(character, '*' | '?' | '[' | ']' | '^' | '\\') {
                    escaped.push('\\');
                }
                escaped.push(character);
            }
            escaped
        };
        format!("{}*{}", escape(&self.prefix), escape(&self.suffix))
    }

    /// The key of an entity.
    pub fn key(&self, id: &str) -> String {
        format!("{}{id}{}", self.prefix, self.suffix)
    }

    /// The ID in a key.
    ///
    /// # Errors
    /// The part in the place of the ID is not one.
    pub fn id(&self, key: &str) -> Result<Id, String> {
        let part = key
            .strip_prefix(&self.prefix)
            .and_then(|rest| rest.strip_suffix(&self.suffix))
            .unwrap_or(key);
        Id::new(part).map_err(|error| format!("{}: {error}", shorten(part)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_finds_the_id_in_a_key() {
        let pattern: KeyPattern = "a*b:{id}:likes".parse().expect("a pattern");
        assert_eq!(pattern.glob(), r"a\*b:*:likes");
        assert_eq!(pattern.key("7"), "a*b:7:likes");
        let id = |key| pattern.id(key).map(|id| id.to_string());
        assert_eq!(id("a*b:7:likes"), Ok("7".to_owned()));
        assert!(id("a*b:7:old:likes").is_err());
        assert!(id("a*b::likes").is_err());
        for bad in ["", "{id}", "likes", "{id}:{id}"] {
            assert!(bad.parse::<KeyPattern>().is_err(), "{bad}");
        }
    }
}
