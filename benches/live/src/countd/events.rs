//! The events that are counted: which entities, and what an entry of the log looks like.

use crate::resp::push_command;

/// The partitions of countd's default configuration.
const PARTITIONS: u16 = 1_024;
/// The first of the entities' ids. They follow one another.
const FIRST_ENTITY: u64 = 7_000_000_000_000_000;

/// Which entities events are about. All have the same chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spreading {
    /// A thousand.
    Hot,
    /// A million.
    LongTail,
}

impl Spreading {
    /// How many there are.
    pub fn entities(self) -> u64 {
        match self {
            Spreading::Hot => 1_000,
            Spreading::LongTail => 1_000_000,
        }
    }

    /// What it is, for the report.
    pub fn label(self) -> &'static str {
        match self {
            Spreading::Hot => "1,000 hot keys",
            Spreading::LongTail => "long tail, 1M keys",
        }
    }

    /// The id of one of them.
    pub fn pick(self, random: &mut Random) -> u64 {
        FIRST_ENTITY + random.below(self.entities())
    }
}

/// A generator of numbers: SplitMix64.
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// The next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// The event of a read, as countd writes it.
pub fn event(eid: u64, random: &mut Random) -> String {
    let uid = 1_000_000_000_000_000 + random.below(10_000_000);
    let trace = (random.next(), random.next());
    format!(
        r#"{{"schema":"v1","etype":"note","eid":"{eid}","metric":"read","delta":1,"uid":"{uid}","traceId":"{:016x}{:016x}","ts":1763750000000}}"#,
        trace.0, trace.1
    )
}

/// Appends the command that appends the event of a read of some entity.
pub fn push_append(out: &mut Vec<u8>, spreading: Spreading, random: &mut Random) {
    let eid = spreading.pick(random);
    let log = format!("x:cnt-update:{}", partition(eid));
    let event = event(eid, random);
    push_command(out, &["XADD", &log, "0-*", "e", &event]);
}

/// The partition of a note: CRC-16/XMODEM of its type and id.
fn partition(eid: u64) -> u16 {
    let name = format!("note:{eid}");
    let step = |crc: u16, byte: u8| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => crc << 1 ^ 0x1021,
        })
    };
    name.bytes().fold(0, step) % PARTITIONS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_those_of_countd() {
        // As docs/countd.md has it.
        assert_eq!(partition(1), 941);
    }

    #[test]
    fn an_event_has_the_form_of_the_log() {
        let event = event(7, &mut Random(1));
        assert!(event.starts_with(r#"{"schema":"v1","etype":"note","eid":"7","#));
    }
}
