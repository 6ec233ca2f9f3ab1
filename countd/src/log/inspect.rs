//! Read-only inspection of partitions: their logs, positions, outboxes and dead letters.

use super::offset::{CLOSED, COPY_LIMIT, MAX_GAP, MAX_OFFSET};
use crate::domain::error::StoreError;
use crate::domain::keys::{Keys, Partition};
use crate::redis::call::{RedisCall, send_reads};
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use futures_util::future::join_all;
use redis::FromRedisValue;
use std::collections::BTreeMap;
use std::sync::LazyLock;

pub(super) static INSPECT: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::new(include_str!("../lua/log_inspect.lua")));

/// The number of logs that are inspected at a time. Until a script ends, the server answers nothing else: for about 25 µs for each log.
const LOGS_AT_A_TIME: usize = 16;
/// The number of characters of an invalid value that an error message quotes.
const QUOTED_CHARS: usize = 40;

/// The two parts of an entry ID.
pub type StreamId = (u64, u64);

/// The end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The last generated ID, even if that entry has been deleted.
    pub last: StreamId,
    /// The number of entries.
    pub length: u64,
    /// The ID of the last existing entry, or 0-0. It differs from `last` after an append was rolled back.
    pub entry: StreamId,
}

/// The state of a partition at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionState {
    /// The partition.
    pub partition: Partition,
    /// The stored position, if there is one.
    pub stored: Option<Vec<u8>>,
    /// The offset of the first entry that has not been counted, or why the stored position is unusable.
    pub position: Result<u64, String>,
    /// The end of the log, or why the log is unusable.
    pub end: Result<LogEnd, String>,
    /// The reason why the outbox is unusable; `None` if it is usable.
    pub outbox: Option<String>,
    /// The number of entries of the outbox, which have not been forwarded.
    pub outbox_length: u64,
    /// The reason why the dead letters are unusable; `None` if they are usable.
    pub dead: Option<String>,
    /// The number of dead letters in the stream of the partition, which all partitions share unless the server is in cluster mode.
    pub dead_length: u64,
}

/// The state of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogState {
    /// The log can be counted. This many entries have not been counted.
    Healthy(u64),
    /// The log has entries with foreign IDs, or was emptied. It must be [renumbered](super::renumber).
    Disordered,
    /// The log ends before its position: it was deleted or replaced, and has started again. Only an operator can decide which of
    /// its entries were counted. Until then it is closed: appends are refused.
    Restarted(String),
    /// Only an operator can repair the log.
    Failed(String),
}

impl PartitionState {
    /// The number of entries of the log; 0 if it is unusable.
    pub fn entries(&self) -> u64 {
        self.end.as_ref().map_or(0, |end| end.length)
    }

    /// The state of the log.
    pub fn log_state(&self) -> LogState {
        let (next, end) = match (&self.position, &self.end) {
            (Ok(next), Ok(end)) => (*next, *end),
            (Err(error), Ok(_)) | (_, Err(error)) => return LogState::Failed(error.clone()),
        };
        let counted = next.saturating_sub(1);
        let (ms, seq) = end.last;
        let ends_before_position = counted > 0 && (end.last == CLOSED || ms == 0 && seq < counted);
        if ends_before_position && end.length > 0 {
            return LogState::Restarted(format!(
                "its position {next} is beyond the end of its log, which was deleted or replaced: requests are refused until \
                 `countd log reset`"
            ));
        }
        if counted > MAX_OFFSET - COPY_LIMIT as u64 {
            return LogState::Failed(format!(
                "its position {next} is at the end of the range of offsets: see `countd log reset`"
            ));
        }
        let is_own = ms == 0 && seq <= MAX_OFFSET;
        match seq.checked_sub(counted) {
            Some(gap) if is_own && gap <= MAX_GAP => {
                LogState::Healthy(end.entry.1.saturating_sub(counted))
            }
            _ => LogState::Disordered,
        }
    }

    /// All problems of the partition except damaged dead letters.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        match self.log_state() {
            LogState::Failed(error) | LogState::Restarted(error) => problems.push(error),
            LogState::Disordered => problems.push(
                "its log was emptied, or has foreign IDs: a consumer renumbers it".to_owned(),
            ),
            LogState::Healthy(_) => {}
        }
        problems.extend(self.outbox.clone());
        problems
    }
}

/// Parses a stored offset. Only the form that countd writes is valid, since scripts compare offsets as texts.
pub(crate) fn parse_offset(stored: &[u8]) -> Option<u64> {
    let number: u64 = std::str::from_utf8(stored).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == stored).then_some(number)
}

/// Describes a field of the positions that is not an offset.
pub(crate) fn invalid_offset(
    keys: Keys,
    partition: Partition,
    field: &str,
    stored: &[u8],
) -> String {
    let text = String::from_utf8_lossy(stored);
    let quoted: String = text.chars().take(QUOTED_CHARS).collect();
    let key = keys.position(partition);
    format!("field {field} of {key} is not an offset: {quoted:?}")
}

/// The states of partitions.
#[derive(Debug, Default)]
pub struct Inspection {
    /// The partitions that could be inspected.
    pub states: BTreeMap<Partition, PartitionState>,
    /// The reason why the other partitions could not be inspected.
    pub error: Option<StoreError>,
}

/// Inspects partitions. If a node is unavailable, the partitions of other nodes are still inspected.
pub async fn inspect(store: &Store, partitions: &[Partition]) -> Inspection {
    let nodes = store.node_map();
    let mut by_node: BTreeMap<usize, Vec<Partition>> = BTreeMap::new();
    for partition in partitions {
        let of_node = by_node.entry(nodes.node_of(*partition)).or_default();
        of_node.push(*partition);
    }
    let queries = by_node
        .into_values()
        .map(|of_node| async move { inspect_node(store, &of_node).await });
    let mut inspection = Inspection::default();
    for result in join_all(queries).await {
        match result {
            Ok(states) => inspection
                .states
                .extend(states.into_iter().map(|state| (state.partition, state))),
            Err(error) => inspection.error = Some(error),
        }
    }
    inspection
}

/// What all logs have together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogTotals {
    /// The number of entries that have been counted.
    pub counted: u64,
    /// The number of entries that have not been counted. Partitions that need a repair have none.
    pub uncounted: u64,
    /// The partitions that need a repair, with the reasons.
    pub problems: Vec<(Partition, String)>,
}

/// The totals of all logs. One script for each 16 partitions, in a cluster one for each.
///
/// # Errors
/// Redis failed.
pub async fn totals(store: &Store) -> Result<LogTotals, StoreError> {
    let all: Vec<Partition> = (0..store.keys().partitions()).collect();
    let inspection = inspect(store, &all).await;
    if let Some(error) = inspection.error {
        return Err(error);
    }
    let mut totals = LogTotals::default();
    for state in inspection.states.values() {
        if let Ok(next) = state.position {
            totals.counted += next.saturating_sub(1);
        }
        if let LogState::Healthy(entries) = state.log_state() {
            totals.uncounted += entries;
        }
        let problems = state.problems().into_iter();
        totals
            .problems
            .extend(problems.map(|problem| (state.partition, problem)));
    }
    Ok(totals)
}

/// The number of entries of all logs that have not been counted, as in [`totals`].
///
/// # Errors
/// Redis failed.
pub async fn uncounted(store: &Store) -> Result<u64, StoreError> {
    Ok(totals(store).await?.uncounted)
}

/// Inspects partitions of one node.
async fn inspect_node(
    store: &Store,
    partitions: &[Partition],
) -> Result<Vec<PartitionState>, StoreError> {
    let keys = store.keys();
    let per_call = if keys.tagged() { 1 } else { LOGS_AT_A_TIME };
    let mut states = Vec::with_capacity(partitions.len());
    // One after the other: the server executes all calls of a pipeline before it answers other clients.
    for some in partitions.chunks(LOGS_AT_A_TIME) {
        let chunks = some.chunks(per_call);
        let calls = chunks.clone().map(|chunk| {
            let mut call_keys = vec![keys.position(chunk[0]), keys.dead(chunk[0])];
            for partition in chunk {
                call_keys.push(keys.log(*partition));
                call_keys.extend(keys.tagged().then(|| keys.outbox(*partition)));
            }
            let mut call = RedisCall::script(&INSPECT, &call_keys);
            call.cmd.arg(u8::from(keys.tagged())).arg(chunk);
            call
        });
        let replies = send_reads(store, &calls.collect::<Vec<_>>()).await?;
        for (chunk, reply) in chunks.zip(replies) {
            let texts = Vec::<Vec<u8>>::from_redis_value(reply?);
            let texts = texts.map_err(|error| StoreError::Unexpected(error.to_string()))?;
            states.extend(decode(keys, chunk, &texts)?);
        }
    }
    Ok(states)
}

/// The number of strings per partition in the reply.
const STRINGS_PER_PARTITION: usize = 9;

/// Decodes the reply of the script.
fn decode(
    keys: Keys,
    partitions: &[Partition],
    texts: &[Vec<u8>],
) -> Result<Vec<PartitionState>, StoreError> {
    let unexpected = || StoreError::Unexpected("the state of logs".to_owned());
    let ([problem, last, dead_length], texts) = texts.split_first_chunk().ok_or_else(unexpected)?;
    if texts.len() != partitions.len() * STRINGS_PER_PARTITION {
        return Err(unexpected());
    }
    let problem = String::from_utf8_lossy(problem);
    let dead_length = number(&String::from_utf8_lossy(dead_length)).ok_or_else(unexpected)?;
    let is_exhausted = stream_id(&String::from_utf8_lossy(last)) == Some((u64::MAX, u64::MAX));
    let mut states = Vec::with_capacity(partitions.len());
    for (partition, texts) in partitions
        .iter()
        .zip(texts.chunks_exact(STRINGS_PER_PARTITION))
    {
        let (partition, dead) = (*partition, keys.dead(*partition));
        let [
            position_error,
            stored,
            log_error,
            end,
            length,
            entry,
            outbox_error,
            outbox,
            outbox_length,
        ] = texts
        else {
            return Err(unexpected());
        };
        let [
            position_error,
            log_error,
            end,
            length,
            entry,
            outbox_error,
            outbox,
            outbox_length,
        ] = [
            position_error,
            log_error,
            end,
            length,
            entry,
            outbox_error,
            outbox,
            outbox_length,
        ]
        .map(|text| String::from_utf8_lossy(text));
        let stored = stored.strip_prefix(b"+").map(<[u8]>::to_vec);
        let position = match (&*position_error, &stored) {
            ("", None) => Ok(1),
            ("", Some(stored)) => parse_offset(stored)
                .ok_or_else(|| invalid_offset(keys, partition, &partition.to_string(), stored)),
            (error, _) => Err(key_error(&keys.position(partition), error, "hash")),
        };
        let end = match &*log_error {
            "" => Ok(LogEnd {
                last: stream_id(&end).ok_or_else(unexpected)?,
                length: number(&length).ok_or_else(unexpected)?,
                entry: stream_id(&entry).ok_or_else(unexpected)?,
            }),
            error => Err(key_error(&keys.log(partition), error, "stream")),
        };
        let is_foreign = stream_id(&outbox).is_none_or(|(ms, seq)| ms > 0 || seq > MAX_OFFSET);
        let outbox = keys.outbox(partition);
        states.push(PartitionState {
            partition,
            stored,
            position,
            end,
            outbox: match &*outbox_error {
                "" => is_foreign.then(|| format!("{outbox} ends with a foreign ID")),
                error => Some(key_error(&outbox, error, "stream")),
            },
            outbox_length: number(&outbox_length).ok_or_else(unexpected)?,
            dead: match &*problem {
                "" => is_exhausted.then(|| key_error(&dead, EXHAUSTED, "stream")),
                error => Some(key_error(&dead, error, "stream")),
            },
            dead_length,
        });
    }
    Ok(states)
}

/// Part of the error message for a stream whose last ID is the greatest one.
const EXHAUSTED: &str = "exhausted";

/// Describes the error of a key.
pub(crate) fn key_error(key: &str, error: &str, expected: &str) -> String {
    if error.contains("WRONGTYPE") {
        format!("{key} is not a {expected}")
    } else if error.contains(EXHAUSTED) {
        format!("{key} has used up its IDs")
    } else {
        format!("{key}: {error}")
    }
}

/// A length in the reply.
fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

fn stream_id(text: &str) -> Option<StreamId> {
    let (ms, seq) = text.split_once('-')?;
    Some((ms.parse().ok()?, seq.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(position: u64, last: StreamId, length: u64) -> PartitionState {
        PartitionState {
            partition: 0,
            stored: Some(position.to_string().into_bytes()),
            position: Ok(position),
            end: Ok(LogEnd {
                last,
                length,
                entry: if length > 0 { last } else { (0, 0) },
            }),
            outbox: None,
            outbox_length: 0,
            dead: None,
            dead_length: 0,
        }
    }

    #[test]
    fn only_healthy_logs_have_a_lag() {
        let log_state = |position, last, length| state(position, last, length).log_state();
        assert_eq!(log_state(1, (0, 0), 0), LogState::Healthy(0));
        assert_eq!(log_state(4, (0, 3), 0), LogState::Healthy(0));
        assert_eq!(log_state(4, (0, 10), 5), LogState::Healthy(7));
        for (entry, waiting) in [((0, 10), 0), ((0, 11), 1)] {
            let mut rolled_back = state(11, (0, 90), 5);
            rolled_back.end = rolled_back.end.map(|end| LogEnd { entry, ..end });
            assert_eq!(
                rolled_back.log_state(),
                LogState::Healthy(waiting),
                "{entry:?}"
            );
        }
        for foreign in [(5, 0), (0, 1 << 53), (0, (1 << 40) - 1), CLOSED] {
            assert_eq!(
                log_state(1, foreign, 3),
                LogState::Disordered,
                "{foreign:?}"
            );
        }
        assert_eq!(log_state(5, (0, 3), 0), LogState::Disordered, "emptied");
        assert_eq!(log_state(5, CLOSED, 0), LogState::Disordered, "emptied");
        for (position, last) in [(5, (0, 3)), (5, CLOSED), ((1 << 53) - 1, (0, 7))] {
            let found = log_state(position, last, 2);
            assert!(
                matches!(found, LogState::Restarted(_)),
                "{position}: {found:?}"
            );
        }
        let end = (0, (1 << 53) + 4);
        let found = log_state(1 << 53, end, 4);
        assert!(matches!(found, LogState::Failed(_)), "{found:?}");
    }

    #[test]
    fn offsets_are_valid_only_as_countd_writes_them() {
        for (stored, number) in [("1", 1), ("0", 0), ("18446744073709551615", u64::MAX)] {
            assert_eq!(parse_offset(stored.as_bytes()), Some(number));
        }
        for bad in [
            "",
            "01",
            "+1",
            "-1",
            " 1",
            "1.0",
            "x",
            "18446744073709551616",
        ] {
            assert_eq!(parse_offset(bad.as_bytes()), None, "{bad}");
        }
    }
}
