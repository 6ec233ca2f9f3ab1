//! Names and IDs in requests and events, validated when they are parsed.
//!
//! They become parts of keys. Keys use colons as separators and braces around the hash tag, so names and IDs contain neither.
//! Most are short and are stored inline, without an allocation.

use compact_str::{CompactString, ToCompactString};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::fmt;
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ObjectBuilder, OneOfBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The maximum length of an ID, in bytes.
pub const MAX_ID: usize = 64;
/// Separates the ID of an entity from what names a shard of it. No ID of a client has it.
pub(in crate::domain) const SHARD_SEPARATOR: char = '~';
/// The maximum length of what follows the ID of an entity in that of a shard: the separator, two numbers and a point.
pub(super) const MAX_SHARD_SUFFIX: usize = 1 + MAX_DIGITS + 1 + MAX_DIGITS;
/// The maximum length of the name of an entity type, a metric or a schema, in bytes.
pub const MAX_NAME: usize = 32;

/// The number of digits of 2^64-1.
const MAX_DIGITS: usize = 20;

/// 2^53: a 64-bit floating-point number represents every integer up to here exactly.
pub(crate) const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Why a string is not a valid ID or name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Not an ID.
    #[error("an ID has 1 to 64 characters: letters, digits, '_', '-' and '.'")]
    Id,
    /// Not a name.
    #[error(
        "a name has 1 to 32 characters: letters, digits, '_' and '-', and starts with a letter"
    )]
    Name,
}

/// The ID of an entity or a user: 1 to 64 ASCII letters, digits, `_`, `-` and `.`.
///
/// JSON input may be a string or an integer from 0 to 2^64-1. Output is always a string, because many clients cannot represent
/// 64-bit integers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Id(CompactString);

impl PartialSchema for Id {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(Some(1))
            .max_length(Some(MAX_ID))
            .pattern(Some("^[A-Za-z0-9_.-]+$"));
        let number = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(0_u64))
            .maximum(Some(u64::MAX));
        let either = OneOfBuilder::new().item(text).item(number);
        let description =
            "An ID: a string, or an integer from 0 to 2^64-1. Responses contain it as a string.";
        either
            .description(Some(description))
            .examples(["114327608932745216"])
            .into()
    }
}

impl ToSchema for Id {}

impl Id {
    /// Validates an ID.
    ///
    /// # Errors
    /// [`Invalid::Id`].
    pub fn new(text: impl Into<CompactString>) -> Result<Id, Invalid> {
        let text = text.into();
        let fits = !text.is_empty() && text.len() <= MAX_ID;
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        if fits && text.bytes().all(allowed) {
            Ok(Id(text))
        } else {
            Err(Invalid::Id)
        }
    }

    /// Validates the ID of an entity in the data, which may be that of a shard of a split entity. Clients never send one.
    ///
    /// # Errors
    /// [`Invalid::Id`].
    pub fn stored(text: impl Into<CompactString>) -> Result<Id, Invalid> {
        let text = text.into();
        match Shard::parse(&text) {
            Some(_) => Ok(Id(text)),
            None => Id::new(text),
        }
    }

    /// The ID followed by a suffix that no ID of a client can have, because it begins with [`SHARD_SEPARATOR`].
    pub(super) fn with_shard(&self, suffix: std::fmt::Arguments<'_>) -> Id {
        Id(compact_str::format_compact!(
            "{self}{SHARD_SEPARATOR}{suffix}"
        ))
    }

    /// The ID or name as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value of a canonical decimal (no sign, no leading zero) below 2^64; `None` for any other ID.
    pub fn number(&self) -> Option<u64> {
        // No ID has a plus sign, and parsing rejects a minus sign.
        let text = self.as_str();
        let is_canonical = text.len() == 1 || text.len() <= MAX_DIGITS && !text.starts_with('0');
        match is_canonical {
            true => text.parse().ok(),
            false => None,
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Deserializes the ID of an entity in an entry of a log: also that of a shard of a split entity.
///
/// # Errors
/// It is neither.
pub(in crate::domain) fn stored_id<'de, D: Deserializer<'de>>(from: D) -> Result<Id, D::Error> {
    struct StoredId;

    impl Visitor<'_> for StoredId {
        type Value = Id;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            IdVisitor.expecting(f)
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<Id, E> {
            IdVisitor.visit_u64(number)
        }

        fn visit_f64<E: de::Error>(self, number: f64) -> Result<Id, E> {
            IdVisitor.visit_f64(number)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Id, E> {
            Id::stored(text).map_err(E::custom)
        }
    }

    from.deserialize_any(StoredId)
}

/// Deserializes the entity of an entry of a log: also a shard of a split entity.
///
/// # Errors
/// It has no type or no ID.
pub(in crate::domain) fn stored_entity<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Entity, D::Error> {
    #[derive(Deserialize)]
    struct Fields {
        etype: Name,
        #[serde(deserialize_with = "stored_id")]
        eid: Id,
    }

    let Fields { etype, eid } = Fields::deserialize(from)?;
    Ok(Entity { etype, eid })
}

struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = Id;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an ID: a string of 1 to 64 letters, digits, '_', '-' and '.', or an integer from 0 to 2^64-1")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Id, E> {
        Ok(Id(number.to_compact_string()))
    }

    /// In JSON, 7.0 equals 7. A number above 2^53 may have been rounded, so it is rejected.
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Id, E> {
        let is_exact = number.fract() == 0.0 && (0.0..=MAX_EXACT).contains(&number);
        if is_exact {
            Ok(Id((number as u64).to_compact_string()))
        } else {
            Err(E::invalid_type(de::Unexpected::Float(number), &self))
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Id, E> {
        Id::new(text).map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Id, D::Error> {
        from.deserialize_any(IdVisitor)
    }
}

/// The name of an entity type, a metric or a schema: 1 to 32 ASCII letters, digits, `_` and `-`, starting with a letter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, utoipa::ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, min_length = 1, max_length = 32, pattern = "^[A-Za-z][A-Za-z0-9_-]*$", example = "note")]
pub struct Name(CompactString);

impl Name {
    /// Validates a name.
    ///
    /// # Errors
    /// [`Invalid::Name`].
    pub fn new(text: impl Into<CompactString>) -> Result<Name, Invalid> {
        let text = text.into();
        let fits = text.len() <= MAX_NAME;
        let starts = text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        if fits && starts && text.bytes().all(allowed) {
            Ok(Name(text))
        } else {
            Err(Invalid::Name)
        }
    }

    /// The ID or name as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for Name {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Name, Invalid> {
        Name::new(text)
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

struct NameVisitor;

impl Visitor<'_> for NameVisitor {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Name, E> {
        Name::new(text).map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
        from.deserialize_str(NameVisitor)
    }
}

/// A counted object, such as a note or a user.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(deny_unknown_fields)]
pub struct Entity {
    /// The entity type, as configured in `[entities]`.
    pub etype: Name,
    /// The ID of the entity.
    pub eid: Id,
}

/// The number of shards that an entity may have.
pub const SHARDS: std::ops::RangeInclusive<u16> = 2..=64;

/// A shard of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shard {
    /// The generation of the split.
    pub generation: u64,
    /// The number of the shard, from 0 on.
    pub number: u16,
}

impl Shard {
    /// The entity that this shard of `base` is.
    pub fn of(self, base: &Entity) -> Entity {
        let Shard { generation, number } = self;
        Entity {
            etype: base.etype.clone(),
            eid: base.eid.with_shard(format_args!("{generation}.{number}")),
        }
    }

    /// The ID of the base and the shard, if the ID is that of a shard.
    pub fn parse(eid: &str) -> Option<(Id, Shard)> {
        let (base, shard) = eid.split_once(SHARD_SEPARATOR)?;
        let (generation, number) = shard.split_once('.')?;
        let shard = Shard {
            generation: canonical(generation)?,
            number: u16::try_from(canonical(number)?).ok()?,
        };
        let is_in_range = shard.number < *SHARDS.end();
        is_in_range.then_some((Id::new(base).ok()?, shard))
    }
}

/// The entity that a client knows: the base, if `entity` is a shard.
pub fn base_of(entity: &Entity) -> Cow<'_, Entity> {
    // Most IDs are short, and few are of shards.
    match Shard::parse(entity.eid.as_str()) {
        None => Cow::Borrowed(entity),
        Some((eid, _)) => Cow::Owned(Entity {
            etype: entity.etype.clone(),
            eid,
        }),
    }
}

/// Whether an entity is a shard.
pub fn is_shard(entity: &Entity) -> bool {
    Shard::parse(entity.eid.as_str()).is_some()
}

/// The value of a decimal without sign and leading zeros.
pub(super) fn canonical(text: &str) -> Option<u64> {
    Id::new(text).ok()?.number()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_contain_no_key_separator() {
        for good in ["1", "18446744073709551615", "a.b-c_D", &"x".repeat(64)] {
            assert_eq!(Id::new(good).map(|id| id.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "a:b", "{7}", "a b", "\u{e9}", "a\n", &"x".repeat(65)] {
            assert_eq!(Id::new(bad), Err(Invalid::Id), "{bad:?}");
        }
    }

    #[test]
    fn only_canonical_decimals_are_numbers() {
        let number = |text: &str| Id::new(text).expect("an ID").number();
        assert_eq!(number("0"), Some(0));
        assert_eq!(number("18446744073709551615"), Some(u64::MAX));
        for other in ["18446744073709551616", "007", "00", "-1", "1.0", "a"] {
            assert_eq!(number(other), None, "{other}");
        }
    }

    #[test]
    fn json_ids_are_strings_or_integers() {
        let id = |json: &str| serde_json::from_str::<Id>(json).map(|id| id.to_string());
        assert_eq!(id("42").ok().as_deref(), Some("42"));
        assert_eq!(
            id("18446744073709551615").ok().as_deref(),
            Some("18446744073709551615")
        );
        assert_eq!(id("42.0").ok().as_deref(), Some("42"));
        assert_eq!(id(r#""u-1""#).ok().as_deref(), Some("u-1"));
        for bad in [
            "-1",
            "1.5",
            "-1.0",
            "9007199254740994.0",
            "null",
            "[]",
            r#""a:b""#,
            "18446744073709551616",
        ] {
            assert!(id(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_start_with_a_letter() {
        assert!(Name::new("note-2_x").is_ok());
        for bad in ["", "2x", "a:b", "a.b", &"x".repeat(33)] {
            assert_eq!(Name::new(bad), Err(Invalid::Name), "{bad:?}");
        }
    }
}
