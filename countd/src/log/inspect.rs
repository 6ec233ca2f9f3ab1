//! What is wrong with logs, their positions and what belongs to them: found without a change.

use super::renumber::{AT_ONCE, CLOSED, MAX_GAP, MAX_OFFSET};
use crate::domain::error::StoreError;
use crate::domain::keys::{Keys, Partition};
use crate::redis::call::RedisCall;
use crate::redis::script::LoadedScript;
use crate::redis::store::Store;
use futures_util::future::join_all;
use redis::{FromRedisValue, RedisError, Value};
use std::collections::BTreeMap;
use std::sync::LazyLock;

static INSPECT: LazyLock<LoadedScript> =
    LazyLock::new(|| LoadedScript::new(include_str!("../lua/inspect.lua").to_owned()));

/// A script looks at this many logs at most: nothing else runs meanwhile.
const LOGS_AT_ONCE: usize = 128;
/// How much of something unreadable is quoted.
const QUOTED: usize = 40;

/// The id of a stream's entry: its two halves.
pub type StreamId = (u64, u64);

/// The end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The last ID that it gave, also if that entry is gone.
    pub last: StreamId,
    /// How many entries it has.
    pub length: u64,
    /// The ID of the last one that is there; 0-0 if none is. An entry that was taken back leaves its ID used.
    pub entry: StreamId,
}

/// What a partition looked like at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionState {
    /// The partition.
    pub partition: Partition,
    /// Its position as it is stored, if there is one.
    pub stored: Option<Vec<u8>>,
    /// The offset of the first entry that has not been counted, or why it is unknown.
    pub position: Result<u64, String>,
    /// The end of its log, or why it has none.
    pub end: Result<End, String>,
    /// What is wrong with its outbox.
    pub outbox: Option<String>,
    /// What is wrong with its dead letters.
    pub dead: Option<String>,
}

/// What the state of a log calls for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing: this many entries wait to be counted.
    Sound(u64),
    /// It is to be [renumbered](super::renumber): it has foreign entries, or was emptied.
    Disordered,
    /// It ends before its position: it was deleted or replaced, and has begun again. What is in it may have been counted or not,
    /// and an operator has to say so. It is to be closed.
    Restarted(String),
    /// An operator has to do something.
    FailedPartition(String),
}

impl PartitionState {
    /// What the state of the log calls for.
    pub fn state(&self) -> State {
        let (next, end) = match (&self.position, &self.end) {
            (Ok(next), Ok(end)) => (*next, *end),
            (Err(why), Ok(_)) | (_, Err(why)) => return State::FailedPartition(why.clone()),
        };
        let counted = next.saturating_sub(1);
        let (ms, seq) = end.last;
        let is_before = counted > 0 && (end.last == CLOSED || ms == 0 && seq < counted);
        if is_before && end.length > 0 {
            return State::Restarted(format!(
                "its position {next} is beyond the end of its log, which was deleted or replaced: requests are refused until \
                 `countd log reset`"
            ));
        }
        if counted > MAX_OFFSET - AT_ONCE as u64 {
            return State::FailedPartition(format!(
                "its position {next} is at the end of the range of offsets: see `countd log reset`"
            ));
        }
        let is_own = ms == 0 && seq <= MAX_OFFSET;
        match seq.checked_sub(counted) {
            Some(gap) if is_own && gap <= MAX_GAP => {
                State::Sound(end.entry.1.saturating_sub(counted))
            }
            _ => State::Disordered,
        }
    }

    /// What is wrong with the partition, all of it.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        match self.state() {
            State::FailedPartition(why) | State::Restarted(why) => problems.push(why),
            State::Disordered => problems.push(
                "its log was emptied, or has foreign IDs: a consumer puts it in order".to_owned(),
            ),
            State::Sound(_) => {}
        }
        problems.extend(self.outbox.clone());
        problems
    }
}

/// The offset that is stored as a position: only the form in which countd writes it can be compared with it.
pub(crate) fn offset_of(stored: &[u8]) -> Option<u64> {
    let number: u64 = std::str::from_utf8(stored).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == stored).then_some(number)
}

/// Says that a field of the positions is no number.
pub(crate) fn no_number(keys: Keys, partition: Partition, field: &str, stored: &[u8]) -> String {
    let text = String::from_utf8_lossy(stored);
    let shown: String = text.chars().take(QUOTED).collect();
    let key = keys.position(partition);
    format!("field {field} of {key} is no offset but {shown:?}")
}

/// What was found of partitions.
#[derive(Debug, Default)]
pub struct Inspection {
    /// Those that could be looked at.
    pub found: BTreeMap<Partition, PartitionState>,
    /// Why the others could not be.
    pub unknown: Option<StoreError>,
}

/// Looks at partitions. A node that does not answer hides its partitions, and no others.
pub async fn inspect(store: &Store, partitions: &[Partition]) -> Inspection {
    let places = store.places();
    let mut by_place: BTreeMap<usize, Vec<Partition>> = BTreeMap::new();
    for partition in partitions {
        let place = by_place.entry(places.of(*partition)).or_default();
        place.push(*partition);
    }
    let asked = by_place
        .into_values()
        .map(|some| async move { look(store, &some).await });
    let mut inspection = Inspection::default();
    for answer in join_all(asked).await {
        match answer {
            Ok(found) => inspection
                .found
                .extend(found.into_iter().map(|one| (one.partition, one))),
            Err(why) => inspection.unknown = Some(why),
        }
    }
    inspection
}

/// Looks at partitions of one node.
async fn look(store: &Store, partitions: &[Partition]) -> Result<Vec<PartitionState>, StoreError> {
    let keys = store.keys();
    let at_once = if keys.tagged() { 1 } else { LOGS_AT_ONCE };
    let mut pipe = redis::pipe();
    pipe.cmd("SCRIPT").arg("LOAD").arg(&INSPECT.source);
    for some in partitions.chunks(at_once) {
        let mut names = vec![keys.position(some[0]), keys.dead(some[0])];
        for partition in some {
            names.push(keys.log(*partition));
            names.extend(keys.tagged().then(|| keys.outbox(*partition)));
        }
        let mut call = RedisCall::script(&INSPECT, &names);
        call.cmd.arg(u8::from(keys.tagged())).arg(some);
        pipe.add_command(call.cmd);
    }
    pipe.ignore_errors();
    let replies: Vec<Result<Value, RedisError>> = pipe.query_async(&mut store.commands()).await?;
    let mut found = Vec::with_capacity(partitions.len());
    for (some, reply) in partitions.chunks(at_once).zip(replies.into_iter().skip(1)) {
        let texts = Vec::<Vec<u8>>::from_redis_value(reply?);
        let texts = texts.map_err(|why| StoreError::Unexpected(why.to_string()))?;
        found.extend(told(keys, some, &texts)?);
    }
    Ok(found)
}

/// How many texts the script replies of a partition.
const TEXTS: usize = 8;

/// What the script has told of some partitions.
fn told(
    keys: Keys,
    partitions: &[Partition],
    texts: &[Vec<u8>],
) -> Result<Vec<PartitionState>, StoreError> {
    let unexpected = || StoreError::Unexpected("what is said of logs".to_owned());
    let ([problem, last], texts) = texts.split_first_chunk().ok_or_else(unexpected)?;
    if texts.len() != partitions.len() * TEXTS {
        return Err(unexpected());
    }
    let problem = String::from_utf8_lossy(problem);
    let is_used_up = stream_id(&String::from_utf8_lossy(last)) == Some((u64::MAX, u64::MAX));
    let mut found = Vec::with_capacity(partitions.len());
    for (partition, texts) in partitions.iter().zip(texts.chunks_exact(TEXTS)) {
        let (partition, dead) = (*partition, keys.dead(*partition));
        let [
            of_positions,
            stored,
            of_log,
            end,
            length,
            entry,
            of_outbox,
            outbox,
        ] = texts
        else {
            return Err(unexpected());
        };
        let [of_positions, of_log, end, length, entry, of_outbox, outbox] =
            [of_positions, of_log, end, length, entry, of_outbox, outbox]
                .map(|text| String::from_utf8_lossy(text));
        let stored = stored.strip_prefix(b"+").map(<[u8]>::to_vec);
        let position = match (&*of_positions, &stored) {
            ("", None) => Ok(1),
            ("", Some(stored)) => offset_of(stored)
                .ok_or_else(|| no_number(keys, partition, &partition.to_string(), stored)),
            (why, _) => Err(wrong(&keys.position(partition), why, "hash")),
        };
        let end = match &*of_log {
            "" => Ok(End {
                last: stream_id(&end).ok_or_else(unexpected)?,
                length: length.parse().map_err(|_| unexpected())?,
                entry: stream_id(&entry).ok_or_else(unexpected)?,
            }),
            why => Err(wrong(&keys.log(partition), why, "stream")),
        };
        let is_foreign = stream_id(&outbox).is_none_or(|(ms, seq)| ms > 0 || seq > MAX_OFFSET);
        let outbox = keys.outbox(partition);
        found.push(PartitionState {
            partition,
            stored,
            position,
            end,
            outbox: match &*of_outbox {
                "" => is_foreign.then(|| format!("{outbox} ends with a foreign ID")),
                why => Some(wrong(&outbox, why, "stream")),
            },
            dead: match &*problem {
                "" => is_used_up.then(|| wrong(&dead, EXHAUSTED, "stream")),
                why => Some(wrong(&dead, why, "stream")),
            },
        });
    }
    Ok(found)
}

/// What servers say of a stream that takes no more entries.
const EXHAUSTED: &str = "exhausted";

/// What an error says of a key.
pub(crate) fn wrong(key: &str, error: &str, expected: &str) -> String {
    if error.contains("WRONGTYPE") {
        format!("{key} is no {expected}")
    } else if error.contains(EXHAUSTED) {
        format!("{key} has used up its IDs")
    } else {
        format!("{key}: {error}")
    }
}

fn stream_id(text: &str) -> Option<StreamId> {
    let (ms, seq) = text.split_once('-')?;
    Some((ms.parse().ok()?, seq.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(position: u64, last: StreamId, length: u64) -> PartitionState {
        PartitionState {
            partition: 0,
            stored: Some(position.to_string().into_bytes()),
            position: Ok(position),
            end: Ok(End {
                last,
                length,
                entry: if length > 0 { last } else { (0, 0) },
            }),
            outbox: None,
            dead: None,
        }
    }

    #[test]
    fn what_waits_is_known_of_sound_logs_alone() {
        let state = |position, last, length| found(position, last, length).state();
        assert_eq!(state(1, (0, 0), 0), State::Sound(0));
        assert_eq!(state(4, (0, 3), 0), State::Sound(0));
        assert_eq!(state(4, (0, 10), 5), State::Sound(7));
        for (entry, waiting) in [((0, 10), 0), ((0, 11), 1)] {
            let mut taken_back = found(11, (0, 90), 5);
            taken_back.end = taken_back.end.map(|end| End { entry, ..end });
            assert_eq!(taken_back.state(), State::Sound(waiting), "{entry:?}");
        }
        for foreign in [(5, 0), (0, 1 << 53), (0, (1 << 40) - 1), CLOSED] {
            assert_eq!(state(1, foreign, 3), State::Disordered, "{foreign:?}");
        }
        assert_eq!(state(5, (0, 3), 0), State::Disordered, "emptied");
        assert_eq!(state(5, CLOSED, 0), State::Disordered, "emptied");
        for (position, last) in [(5, (0, 3)), (5, CLOSED), ((1 << 53) - 1, (0, 7))] {
            let state = state(position, last, 2);
            assert!(
                matches!(state, State::Restarted(_)),
                "{position}: {state:?}"
            );
        }
        let end = (0, (1 << 53) + 4);
        let state = state(1 << 53, end, 4);
        assert!(matches!(state, State::FailedPartition(_)), "{state:?}");
    }

    #[test]
    fn positions_are_numbers_as_countd_writes_them() {
        for (stored, number) in [("1", 1), ("0", 0), ("18446744073709551615", u64::MAX)] {
            assert_eq!(offset_of(stored.as_bytes()), Some(number));
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
            assert_eq!(offset_of(bad.as_bytes()), None, "{bad}");
        }
    }
}
