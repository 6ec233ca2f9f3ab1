//! Decodes records of the topic, which any producer may have written.

use super::decoder::{DecodedEntry, decode};
use crate::domain::config::Config;
use crate::domain::event::Event;
use crate::log::kafka::BorrowedRecord;
use crate::log::{EntryKind, LogEntry};

/// Decodes a record. `misplaced` is the reason why it cannot be counted where it is, if there is one.
///
/// What only a step in Redis can say is refused: that a fact has changed, or that a counter was updated.
pub fn decode_record(
    record: BorrowedRecord<'_>,
    misplaced: Option<String>,
    config: &Config,
) -> (LogEntry, DecodedEntry) {
    let (entry, decoded) = match (misplaced, record.value) {
        (Some(reason), _) => (record.to_entry(), DecodedEntry::Invalid(reason)),
        (None, None) => {
            let reason = "the record has no value".to_owned();
            (record.to_entry(), DecodedEntry::Invalid(reason))
        }
        (None, Some(value)) => match Event::read_written(value) {
            // Most records. What has this form has no `event_id`.
            Some(event) => (record.to_entry_of_event(), DecodedEntry::Event(event, None)),
            None => {
                let entry = record.to_entry();
                let decoded = decode(&entry);
                (entry, decoded)
            }
        },
    };
    let refused = match &decoded {
        DecodedEntry::Event(event, None) if is_fact(event.metric.as_str(), config) => {
            "an event of a once metric without its fact: use POST /action/{metric}, or an envelope"
        }
        DecodedEntry::Event(event, _)
            if event.counted || event.retried.is_some() || !event.corrected.is_empty() =>
        {
            "an event in the topic cannot say that counters include it"
        }
        _ => return (entry, decoded),
    };
    let entry = LogEntry {
        // It must not be retried as an entry of a stream, where it would be taken at its word.
        kind: EntryKind::Unknown,
        ..record.to_entry()
    };
    (entry, DecodedEntry::Invalid(refused.to_owned()))
}

/// Whether events of a metric are those of facts.
fn is_fact(metric: &str, config: &Config) -> bool {
    let metric = config.metrics.get(metric);
    metric.is_some_and(|(_, metric)| metric.fact_kind().is_some())
}

#[cfg(test)]
mod tests {
    use super::super::dead_letter::preserve_payload;
    use super::*;

    fn record(value: Option<&str>) -> BorrowedRecord<'_> {
        BorrowedRecord {
            topic_partition: 0,
            offset: 3,
            key: Some(b"note:7"),
            value: value.map(str::as_bytes),
            is_copy: false,
        }
    }

    fn decoded(value: Option<&str>, misplaced: Option<&str>) -> (EntryKind, Result<(), String>) {
        let config = Config::parse("").expect("valid");
        let (entry, decoded) = decode_record(record(value), misplaced.map(str::to_owned), &config);
        let result = match decoded {
            DecodedEntry::Event(..) => Ok(()),
            DecodedEntry::Invalid(reason) => Err(reason),
            _ => panic!("neither an event nor invalid"),
        };
        (entry.kind, result)
    }

    #[test]
    fn only_repeatable_events_and_envelopes_are_counted() {
        let event = |metric: &str, more: &str| {
            format!(r#"{{"etype":"note","eid":"7","metric":"{metric}","delta":1,"uid":"4"{more}}}"#)
        };
        let read = event("read", "");
        assert_eq!(decoded(Some(&read), None), (EntryKind::Event, Ok(())));
        let envelope = r#"{"event_id":"a","event_type":"like","aggregate_type":"note","aggregate_id":"7","payload":{"delta":1,"uid":"4"}}"#;
        assert_eq!(decoded(Some(envelope), None), (EntryKind::Envelope, Ok(())));
        for (value, reason) in [
            (event("like", ""), "without its fact"),
            (event("read", r#","counted":true"#), "counters include it"),
            (event("read", r#","retried":4"#), "counters include it"),
        ] {
            let (kind, result) = decoded(Some(&value), None);
            assert_eq!(kind, EntryKind::Unknown, "{value}");
            assert!(result.is_err_and(|found| found.contains(reason)), "{value}");
        }
        let (_, result) = decoded(Some(&read), Some("elsewhere"));
        assert_eq!(result, Err("elsewhere".to_owned()));
        let (_, result) = decoded(None, None);
        assert!(result.is_err_and(|reason| reason.contains("no value")));
        let (_, result) = decoded(Some("{"), None);
        assert!(result.is_err_and(|reason| reason.contains("malformed")));
    }

    #[test]
    fn dead_letters_have_the_text_of_the_record() {
        let config = Config::parse("").expect("valid");
        for text in [
            r#"{"etype":"note","eid":"7","metric":"clap","delta":1,"uid":"4","ts":5}"#,
            r#"{"etype":"note","eid":"7","metric":"like","delta":1,"uid":"4","ts":5}"#,
            r#"{"etype":"note","eid":"7","metric":"read","delta":1,"uid":"4","ts":5,"counted":true}"#,
            r#"{"uid":4,"etype":"note","eid":7,"metric":"read","delta":1}"#,
            "no JSON",
        ] {
            let (entry, decoded) = decode_record(record(Some(text)), None, &config);
            let (payload, len) = preserve_payload(entry, &decoded, 10_000);
            assert_eq!((payload.as_slice(), len), (text.as_bytes(), text.len()));
        }
    }
}
