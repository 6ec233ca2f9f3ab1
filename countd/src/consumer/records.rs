//! Decodes records of the topic, which any producer may have written.

use super::decoder::{DecodedEntry, decode};
use crate::domain::config::Config;
use crate::domain::event::Event;
use crate::log::kafka::Record;
use crate::log::{EntryKind, LogEntry};

/// Decodes a record. `misplaced` is the reason why it cannot be counted where it is, if there is one.
///
/// What only a step in Redis can say is refused: that a fact has changed, or that a counter was updated.
pub fn decode_record(
    record: Record,
    misplaced: Option<String>,
    config: &Config,
) -> (LogEntry, DecodedEntry) {
    let (mut entry, decoded) = decode_value(record, misplaced);
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
    // It must not be retried as an entry of a stream, where it would be taken at its word.
    entry.kind = EntryKind::Unknown;
    (entry, DecodedEntry::Invalid(refused.to_owned()))
}

/// Decodes the value of a record.
fn decode_value(record: Record, misplaced: Option<String>) -> (LogEntry, DecodedEntry) {
    let reason = match (misplaced, &record.value) {
        (None, Some(value)) => {
            // Most records. What has this form has no `event_id`.
            if let Some(event) = Event::read_written(value) {
                let entry = record.into_entry_of(EntryKind::Event);
                return (entry, DecodedEntry::Event(event, None));
            }
            let entry = record.into_entry();
            let decoded = decode(&entry);
            return (entry, decoded);
        }
        (Some(reason), _) => reason,
        (None, None) => "the record has no value".to_owned(),
    };
    (record.into_entry(), DecodedEntry::Invalid(reason))
}

/// Whether events of a metric are those of facts.
fn is_fact(metric: &str, config: &Config) -> bool {
    let metric = config.metrics.get(metric);
    metric.is_some_and(|(_, metric)| metric.fact_kind().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(value: Option<&str>, misplaced: Option<&str>) -> (EntryKind, Result<(), String>) {
        let config = Config::parse("").expect("valid");
        let record = Record {
            topic_partition: 0,
            offset: 3,
            key: Some(b"note:7".to_vec()),
            value: value.map(|value| value.as_bytes().to_vec()),
            is_copy: false,
        };
        let (entry, decoded) = decode_record(record, misplaced.map(str::to_owned), &config);
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
}
