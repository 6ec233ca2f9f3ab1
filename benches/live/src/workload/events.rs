//! The events that countd counts: their entities and their encoding as log entries.

use crate::driver::resp::push_command;
use crate::workload::counts::SplitMix;

/// The number of partitions in countd's default configuration.
pub const PARTITIONS: u16 = 1_024;
/// The smallest entity id. The others follow in sequence.
const FIRST_ENTITY: u64 = 7_000_000_000_000_000;

/// The entities of the events, chosen uniformly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EntityPool {
    /// A thousand entities.
    Hot,
    /// A million entities.
    LongTail,
}

impl EntityPool {
    /// The number of entities.
    pub fn entities(self) -> u64 {
        match self {
            EntityPool::Hot => 1_000,
            EntityPool::LongTail => 1_000_000,
        }
    }

    /// The name in the report.
    pub fn label(self) -> &'static str {
        match self {
            EntityPool::Hot => "1,000 hot keys",
            EntityPool::LongTail => "long tail, 1M keys",
        }
    }

    /// The id of an entity, in turn.
    pub fn nth(self, number: u64) -> u64 {
        FIRST_ENTITY + number % self.entities()
    }

    /// The id of a random entity.
    pub fn pick(self, random: &mut SplitMix) -> u64 {
        FIRST_ENTITY + random.below(self.entities())
    }
}

/// A read event, as countd encodes it.
pub fn event(eid: u64, random: &mut SplitMix) -> String {
    let uid = 1_000_000_000_000_000 + random.below(10_000_000);
    let trace = (random.next(), random.next());
    format!(
        r#"{{"schema":"v1","etype":"note","eid":"{eid}","metric":"read","delta":1,"uid":"{uid}","traceId":"{:016x}{:016x}","ts":1763750000000}}"#,
        trace.0, trace.1
    )
}

/// Encodes the XADD of a read event of a random entity.
pub fn push_append(out: &mut Vec<u8>, pool: EntityPool, random: &mut SplitMix) {
    let eid = pool.pick(random);
    let log = format!("x:cnt-update:{}", partition(eid));
    let event = event(eid, random);
    push_command(out, &["XADD", &log, "0-*", "e", &event]);
}

/// The partition of a note: MurmurHash2 of its type and id as in Kafka, as countd computes it.
pub fn partition(eid: u64) -> u16 {
    const M: u32 = 0x5bd1_e995;
    let name = format!("note:{eid}");
    let (words, rest) = name.as_bytes().as_chunks::<4>();
    let mut hash = words
        .iter()
        .fold(0x9747_b28c ^ name.len() as u32, |hash, word| {
            let word = u32::from_le_bytes(*word).wrapping_mul(M);
            hash.wrapping_mul(M) ^ (word ^ word >> 24).wrapping_mul(M)
        });
    if !rest.is_empty() {
        let bytes = rest.iter().rev();
        hash ^= bytes.fold(0, |word, byte| word << 8 | u32::from(*byte));
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(M);
    ((hash ^ hash >> 15) & 0x7fff_ffff) as u16 % PARTITIONS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_computed_as_in_countd() {
        // The values of countd's own test.
        let notes = [1, 123_456, u64::MAX, FIRST_ENTITY];
        assert_eq!(notes.map(partition), [382, 988, 857, 464]);
    }

    #[test]
    fn an_event_is_encoded_as_a_log_entry() {
        let event = event(7, &mut SplitMix(1));
        assert!(event.starts_with(r#"{"schema":"v1","etype":"note","eid":"7","#));
    }
}
