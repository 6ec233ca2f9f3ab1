//! A row of the outbox table, and its envelope.

use super::statements::COLUMNS;
use crate::domain::event::Envelope;
use crate::domain::ids::{Id, Name};
use crate::domain::text::brief;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The maximum length of a reason, in bytes.
const MAX_REASON: usize = 1_000;

/// A row of the outbox table.
pub struct OutboxRow {
    /// The value of `relay.key`.
    pub key: i64,
    /// The values of [`COLUMNS`]. `Ok(None)` is NULL; an error says that the value is not a text.
    pub values: [Result<Option<String>, String>; COLUMNS.len()],
}

impl OutboxRow {
    /// The envelope of the row.
    ///
    /// # Errors
    /// Why the row contains none. The payload is not examined beyond its JSON syntax.
    pub fn envelope(&self) -> Result<Envelope<'_>, String> {
        let value = |at: usize| match &self.values[at] {
            Ok(Some(text)) => Ok(text.as_str()),
            Ok(None) => Err(format!("{} is NULL", COLUMNS[at])),
            Err(error) => Err(format!("{}: {error}", COLUMNS[at])),
        };
        let invalid = |at: usize, error: &dyn std::fmt::Display| {
            format!("{}: {}", COLUMNS[at], brief(&error))
        };
        Ok(Envelope {
            event_id: Id::new(value(0)?).map_err(|error| invalid(0, &error))?,
            event_type: Cow::Borrowed(value(1)?),
            aggregate_type: Name::new(value(2)?).map_err(|error| invalid(2, &error))?,
            aggregate_id: Id::new(value(3)?).map_err(|error| invalid(3, &error))?,
            payload: serde_json::from_str::<&RawValue>(value(4)?)
                .map_err(|error| invalid(4, &error))?,
        })
    }

    /// The ID of the event for messages, or the key of the row.
    pub fn name(&self) -> String {
        match &self.values[0] {
            Ok(Some(id)) => brief(id),
            _ => format!("row {}", self.key),
        }
    }
}

/// A reason as a column of any character set can store it.
pub fn storable(reason: &str) -> String {
    let printable = |c: char| match c {
        ' '..='~' => c,
        _ => '?',
    };
    reason.chars().take(MAX_REASON).map(printable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: [Option<&str>; 5]) -> OutboxRow {
        let values = values.map(|value| Ok(value.map(str::to_owned)));
        OutboxRow { key: 9, values }
    }

    #[test]
    fn a_row_is_an_envelope() {
        let payload = r#"{"delta": 1, "uid": 42}"#;
        let row = row([
            Some("17"),
            Some("like"),
            Some("note"),
            Some("1"),
            Some(payload),
        ]);
        let event = row
            .envelope()
            .expect("an envelope")
            .event()
            .expect("an event");
        assert_eq!((event.metric.as_str(), event.uid.as_str()), ("like", "42"));
        assert_eq!(row.name(), "17");
    }

    #[test]
    fn reasons_name_the_column() {
        let good = [Some("e"), Some("like"), Some("note"), Some("1"), Some("{}")];
        for (at, value, part) in [
            (0, None, "event_id is NULL"),
            (0, Some("a:b"), "event_id: "),
            (2, Some("no te"), "aggregate_type: "),
            (3, Some(""), "aggregate_id: "),
            (4, Some("{"), "payload: "),
            (4, None, "payload is NULL"),
        ] {
            let mut values = good;
            values[at] = value;
            let error = row(values).envelope().expect_err(part);
            assert!(error.starts_with(part), "{error}");
        }
        let mut broken = row(good);
        broken.values[4] = Err("not a text".to_owned());
        let error = broken.envelope().expect_err("no text");
        assert_eq!(error, "payload: not a text");
    }

    #[test]
    fn reasons_are_short_printable_ascii() {
        assert_eq!(storable("a\0\u{1f600}b"), "a??b");
        assert_eq!(storable(&"x".repeat(5_000)).len(), MAX_REASON);
    }
}
