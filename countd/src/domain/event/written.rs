//! Reads an event in the form in which countd writes it: its fields in their order, without spaces and escapes.
//!
//! Most entries of a log have it, and reading it costs less than a JSON parser. Anything else is left to the parser.

use super::entity_event::{Event, MAX_TRACE};
use crate::domain::ids::{Entity, Id, Name};

/// What is left to read.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    /// Reads this text.
    fn expect(&mut self, text: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    /// Reads this text, if it is next.
    fn skip(&mut self, text: &str) -> bool {
        self.expect(text).is_some()
    }

    /// Reads a string after its first quote. `None` if it has characters that JSON may escape, or that are not ASCII.
    fn string(&mut self) -> Option<&'a str> {
        let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
        let len = self.0.bytes().position(|byte| !is_plain(byte))?;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest.strip_prefix('"')?;
        Some(text)
    }

    /// Reads a number without sign. `None` if it has leading zeros, is no integer, or may be larger than 2^63-1.
    fn number(&mut self) -> Option<u64> {
        const MAX_DIGITS: usize = 18;
        let len = self.0.bytes().position(|byte| !byte.is_ascii_digit())?;
        let (digits, rest) = self.0.split_at_checked(len)?;
        let is_canonical = len == 1 || len <= MAX_DIGITS && !digits.starts_with('0');
        // A fraction or an exponent follows neither.
        let ends = rest.starts_with([',', '}']);
        self.0 = rest;
        (is_canonical && ends).then(|| digits.parse().ok())?
    }
}

impl Event {
    /// Reads an event that countd has written, so that [`to_json`](Event::to_json) returns the same text. `None` for any other form, for rare
    /// fields, and for what is no event.
    pub fn read_written(json: &[u8]) -> Option<Event> {
        let mut rest = Rest(std::str::from_utf8(json).ok()?);
        rest.expect("{")?;
        let schema = match rest.skip(r#""schema":""#) {
            true => {
                let schema = Name::new(rest.string()?).ok()?;
                rest.expect(",")?;
                Some(schema)
            }
            false => None,
        };
        rest.expect(r#""etype":""#)?;
        let etype = Name::new(rest.string()?).ok()?;
        rest.expect(r#","eid":""#)?;
        let eid = Id::stored(rest.string()?).ok()?;
        rest.expect(r#","metric":""#)?;
        let metric = Name::new(rest.string()?).ok()?;
        rest.expect(r#","delta":"#)?;
        let is_negative = rest.skip("-");
        let delta = i64::try_from(rest.number()?).ok()?;
        rest.expect(r#","uid":""#)?;
        let uid = Id::new(rest.string()?).ok()?;
        let author = match rest.skip(r#","author":""#) {
            true => Some(Id::new(rest.string()?).ok()?),
            false => None,
        };
        let trace_id = match rest.skip(r#","traceId":""#) {
            true => Some(rest.string().filter(|id| id.len() <= MAX_TRACE)?.into()),
            false => None,
        };
        rest.expect(r#","ts":"#)?;
        let ts = rest.number()?;
        let counted = rest.skip(r#","counted":true"#);
        rest.expect("}")?;
        // JSON has no integer -0.
        let is_event = rest.0.is_empty() && !(is_negative && delta == 0);
        is_event.then_some(Event {
            schema,
            entity: Entity { etype, eid },
            metric,
            delta: if is_negative { -delta } else { delta },
            uid,
            author,
            trace_id,
            ts,
            counted,
            corrected: Vec::new(),
            retried: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event() -> impl Strategy<Value = Event> {
        let name = || "[a-z][a-zA-Z0-9_-]{0,8}".prop_map(|text| Name::new(text).expect("a name"));
        let id = || "[A-Za-z0-9_.-]{1,24}".prop_map(|text| Id::new(text).expect("an ID"));
        let eid = prop_oneof![id(), Just(Id::stored("7~12.3").expect("the ID of a shard")),];
        let trace = "[ -~]{0,12}|\u{e9}{1,3}";
        let first = (
            prop::option::of(name()),
            (name(), eid).prop_map(|(etype, eid)| Entity { etype, eid }),
            name(),
            prop_oneof![-3..=3_i64, any::<i64>()],
            id(),
        );
        let rest = (
            prop::option::of(id()),
            prop::option::of(trace),
            prop_oneof![0..10_u64, any::<u64>()],
            any::<bool>(),
            prop::collection::vec(name(), 0..2),
            prop::option::of(any::<u64>()),
        );
        (first, rest).prop_map(|((schema, entity, metric, delta, uid), rest)| {
            let (author, trace_id, ts, counted, corrected, retried) = rest;
            Event {
                schema,
                entity,
                metric,
                delta,
                uid,
                author,
                trace_id: trace_id.map(Into::into),
                ts,
                counted,
                corrected,
                retried,
            }
        })
    }

    /// Asserts that what is read is what the JSON parser reads. Returns whether anything was.
    fn is_read(json: &[u8]) -> bool {
        let Some(event) = Event::read_written(json) else {
            return false;
        };
        let parsed = serde_json::from_slice::<Event>(json);
        assert_eq!(
            parsed.ok().as_ref(),
            Some(&event),
            "{}",
            json.escape_ascii()
        );
        true
    }

    #[test]
    fn common_events_are_read() {
        for json in [
            r#"{"etype":"note","eid":"7","metric":"read","delta":1,"uid":"42","ts":1700000000000}"#,
            r#"{"schema":"v1","etype":"note","eid":"7~12.3","metric":"like","delta":-1,"uid":"42","author":"9","traceId":"t","ts":0,"counted":true}"#,
        ] {
            assert!(is_read(json.as_bytes()), "{json}");
        }
    }

    #[test]
    fn other_forms_are_left_to_the_parser() {
        let written = r#"{"etype":"note","eid":"7","metric":"read","delta":1,"uid":"42","ts":5}"#;
        assert!(is_read(written.as_bytes()));
        for (from, to) in [
            (r#""7""#, "7"),
            (r#""7""#, r#""7~12.64""#),
            ("note", r"n\u006fte"),
            (r#""delta":1"#, r#""delta":-0"#),
            (r#""delta":1"#, r#""delta":01"#),
            (r#""delta":1"#, r#""delta":1.0"#),
            (r#""delta":1"#, r#""delta": 1"#),
            (r#""delta":1"#, r#""delta":9223372036854775808"#),
            (r#""ts":5"#, r#""ts":5e1"#),
            (r#""ts":5"#, r#""ts":-5"#),
            (r#""ts":5"#, r#""ts":5,"counted":false"#),
            (r#""ts":5"#, r#""ts":5,"retried":4"#),
            (r#""ts":5"#, r#""ts":5,"more":4"#),
            ("5}", "5}}"),
            ("5}", "5"),
        ] {
            let json = written.replace(from, to);
            assert_ne!(json, written);
            assert!(!is_read(json.as_bytes()), "{json}");
        }
    }

    proptest! {
        #[test]
        fn an_event_is_read_as_the_parser_reads_it(event in event()) {
            let is_rare = !event.corrected.is_empty() || event.retried.is_some();
            prop_assert!(!(is_read(event.to_json().as_bytes()) && is_rare));
        }

        #[test]
        fn a_changed_event_is_read_as_the_parser_reads_it(
            event in event(), at in any::<prop::sample::Index>(), byte in any::<u8>(), removes in any::<bool>()
        ) {
            let mut json = event.to_json().into_bytes();
            let at = at.index(json.len());
            match removes {
                true => drop(json.remove(at)),
                false => json[at] = byte,
            }
            is_read(&json);
        }
    }
}
