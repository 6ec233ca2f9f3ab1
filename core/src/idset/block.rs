//! The members of one block, that is, of 65,536 consecutive ids: a `RoaringBitmap` with a single container.
//!
//! This file is the only one that knows the `roaring` crate.

use std::io::{self, Read, Write};

use roaring::RoaringBitmap;

use super::{SetError, SetOp};

/// The largest cardinality of an array container; above it a container is a bitmap (unless it is made of runs).
pub(super) const ARRAY_MAX: u64 = 4096;
/// The cardinality of a container that holds all it can.
const FULL: u64 = 1 << 16;
/// Bytes of a bitmap container.
pub(super) const BITMAP_BYTES: usize = 8192;

/// So few members are never runs: to remember that they are would cost what it saves.
const FEW: u64 = 64;

const COOKIE_PLAIN: u32 = 12346;
const COOKIE_RUNS: u32 = 12347;
/// Bytes before the payload in the serialization of one container: cookie, number, key, cardinality, offset ...
const PLAIN_HEAD: usize = 16;
/// ... and of one made of runs: cookie with the number, flags, key, cardinality.
const RUN_HEAD: usize = 9;

/// A non-empty set of `u16`. An array, a bitmap or, only where it came in as such or from an operation, runs.
#[derive(Clone, PartialEq)]
pub(super) struct Block(RoaringBitmap);

impl Block {
    /// The block of one member. Its two allocations are exact, which matters where most blocks are like this.
    pub(super) fn single(low: u16) -> Block {
        let byte = 1u8 << (low % 8);
        Block(RoaringBitmap::from_lsb0_bytes(u32::from(low & !7), &[byte]))
    }

    /// The block of these, which ascend strictly and are not none.
    pub(super) fn from_sorted(lows: &[u16]) -> Block {
        match lows {
            [low] => Block::single(*low),
            _ => {
                let mut bits = RoaringBitmap::new();
                // Only members out of order make it fail.
                let appended = bits.append(lows.iter().map(|&low| u32::from(low)));
                debug_assert!(appended.is_ok());
                Block(bits).shrunk()
            }
        }
    }

    /// Decodes the payload of one container, of which the caller knows that it has the length its head asks for.
    /// A payload that is out of order or has another cardinality is refused. Second result: [`Block::is_run`].
    pub(super) fn from_payload(
        run: bool,
        cardinality: u32,
        payload: &[u8],
    ) -> Result<(Block, bool), SetError> {
        let less_one = u16::try_from(cardinality - 1)
            .map_err(|_| SetError::Payload)?
            .to_le_bytes();
        let mut head = [0u8; PLAIN_HEAD];
        let head = if run {
            head[..4].copy_from_slice(&COOKIE_RUNS.to_le_bytes());
            head[4] = 1;
            head[7..9].copy_from_slice(&less_one);
            &head[..RUN_HEAD]
        } else {
            head[..4].copy_from_slice(&COOKIE_PLAIN.to_le_bytes());
            head[4..8].copy_from_slice(&1u32.to_le_bytes());
            head[10..12].copy_from_slice(&less_one);
            &head[..]
        };
        let bits =
            RoaringBitmap::deserialize_from(head.chain(payload)).map_err(|_| SetError::Payload)?;
        let mut block = Block(bits);
        // The crate checks the order of everything and the cardinality of bitmaps, but not that of runs.
        if block.len() != u64::from(cardinality) {
            return Err(SetError::Payload);
        }
        let run = run && block.optimize();
        Ok((block, run))
    }

    /// The number of members, 1..=65536. O(1), for runs O(runs).
    pub(super) fn len(&self) -> u64 {
        self.0.len()
    }

    pub(super) fn contains(&self, low: u16) -> bool {
        self.0.contains(u32::from(low))
    }

    pub(super) fn insert(&mut self, low: u16) -> bool {
        self.0.insert(u32::from(low))
    }

    /// May leave the block empty: the caller then drops it. Halving an array gives the memory back.
    pub(super) fn remove(&mut self, low: u16) -> bool {
        let removed = self.0.remove(u32::from(low));
        // An array keeps its capacity, so a copy is made where the length passes a power of two: at most half is slack.
        if removed && self.len() <= ARRAY_MAX && self.len().is_power_of_two() {
            self.0 = self.0.clone();
        }
        removed
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn min(&self) -> Option<u16> {
        self.0.min().map(|m| m as u16)
    }

    pub(super) fn max(&self) -> Option<u16> {
        self.0.max().map(|m| m as u16)
    }

    /// How many members lie in `min ..= max`.
    pub(super) fn count(&self, min: u16, max: u16) -> u64 {
        self.0.range_cardinality(u32::from(min)..=u32::from(max))
    }

    pub(super) fn select(&self, rank: u64) -> Option<u16> {
        self.0.select(u32::try_from(rank).ok()?).map(|m| m as u16)
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = u16> + '_ {
        self.0.iter().map(|m| m as u16)
    }

    /// Appends up to `limit` members from `from` on, ascending, each with `base` added. `buffer` holds them on their way.
    pub(super) fn copy_up(
        &self,
        base: u64,
        from: u16,
        limit: usize,
        buffer: &mut [u32],
        out: &mut Vec<u64>,
    ) {
        // Of a run that fills the container the crate's `next_many` gives nothing: its length overflows (roaring 0.12.0).
        if from == 0 && self.len() == FULL {
            let all = (0..=u64::from(u16::MAX)).take(limit);
            out.extend(all.map(|low| base | low));
            return;
        }
        let mut members = self.0.range(u32::from(from)..);
        let mut left = limit;
        while left > 0 {
            let room = left.min(buffer.len());
            let got = members.next_many(&mut buffer[..room]);
            out.extend(got.iter().map(|&m| base | u64::from(m)));
            if got.len() < room {
                return;
            }
            left -= room;
        }
    }

    /// Appends up to `limit` members from `upto` down, descending, each with `base` added.
    pub(super) fn copy_down(&self, base: u64, upto: u16, limit: usize, out: &mut Vec<u64>) {
        let mut members = self.0.range(..=u32::from(upto));
        for _ in 0..limit {
            let Some(m) = members.next_back() else { return };
            out.push(base | u64::from(m));
        }
    }

    /// The members in `min ..= max`, if any, and whether they are runs.
    pub(super) fn part(&self, min: u16, max: u16) -> Option<(Block, bool)> {
        let mut bits = self.0.clone();
        if min > 0 {
            bits.remove_range(..u32::from(min));
        }
        if max < u16::MAX {
            bits.remove_range(u32::from(max) + 1..);
        }
        let mut block = Block(bits);
        if block.is_empty() {
            return None;
        }
        let run = block.optimize();
        Some((block, run))
    }

    /// Whether the container is made of runs. O(1), for runs O(runs).
    pub(super) fn is_run(&self) -> bool {
        self.0.statistics().n_run_containers == 1
    }

    /// Takes the container that needs the fewest bytes; true when that is runs.
    pub(super) fn optimize(&mut self) -> bool {
        if self.len() <= FEW {
            self.expand_runs();
            return false;
        }
        self.0.optimize();
        self.is_run()
    }

    /// Makes an array or a bitmap of runs. The crate would let runs that change grow to 16 times a bitmap.
    pub(super) fn expand_runs(&mut self) {
        self.0.remove_run_compression();
    }

    /// The same with no spare capacity. A bitmap's is small beside it, so it is not copied.
    fn shrunk(self) -> Block {
        if self.len() > ARRAY_MAX {
            self
        } else {
            Block(self.0.clone())
        }
    }

    /// A copy in fresh allocations, with no spare capacity.
    pub(super) fn reallocated(&self) -> Block {
        Block(self.0.clone())
    }

    /// Adds all members of `other`.
    pub(super) fn union_with(&mut self, other: Block) {
        self.0 |= other.0;
    }

    /// Bytes of the container in the portable format, its head not counted. `run` is [`Block::is_run`].
    pub(super) fn payload_len(&self, run: bool) -> usize {
        match self.len() {
            _ if run => self.0.serialized_size() - RUN_HEAD,
            len if len <= ARRAY_MAX => 2 * len as usize,
            _ => BITMAP_BYTES,
        }
    }

    /// Appends those bytes.
    pub(super) fn write_payload(&self, run: bool, out: &mut Vec<u8>) {
        let mut tail = SkipFirst {
            skip: if run { RUN_HEAD } else { PLAIN_HEAD },
            out,
        };
        // Writing to a Vec cannot fail.
        let _ = self.0.serialize_into(&mut tail);
    }
}

/// Drops the first bytes and appends the rest.
struct SkipFirst<'a> {
    skip: usize,
    out: &'a mut Vec<u8>,
}

impl Write for SkipFirst<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let dropped = self.skip.min(bytes.len());
        self.skip -= dropped;
        self.out.extend_from_slice(&bytes[dropped..]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The result of `op` on these blocks in this order, if it has members. A difference takes all others from the first.
pub(super) fn merge(op: SetOp, blocks: &[&Block]) -> Option<(Block, bool)> {
    let (first, rest) = blocks.split_first()?;
    let Some((second, rest)) = rest.split_first() else {
        let mut only = (*first).clone();
        let run = only.optimize();
        return Some((only, run));
    };
    let (a, b) = (&first.0, &second.0);
    let mut bits = match op {
        SetOp::And => a & b,
        SetOp::Or => a | b,
        SetOp::Xor => a ^ b,
        SetOp::Diff => a - b,
    };
    for Block(next) in rest {
        match op {
            SetOp::And => bits &= next,
            SetOp::Or => bits |= next,
            SetOp::Xor => bits ^= next,
            SetOp::Diff => bits -= next,
        }
    }
    let mut block = Block(bits);
    if block.is_empty() {
        return None;
    }
    let run = block.optimize();
    Some((block.shrunk(), run))
}

/// How many members [`merge`] would yield; up to two blocks are only counted.
pub(super) fn merge_len(op: SetOp, blocks: &[&Block]) -> u64 {
    match blocks {
        [] => 0,
        [one] => one.len(),
        [Block(a), Block(b)] => match op {
            SetOp::And => a.intersection_len(b),
            SetOp::Or => a.union_len(b),
            SetOp::Xor => a.symmetric_difference_len(b),
            SetOp::Diff => a.difference_len(b),
        },
        _ => merge(op, blocks).map_or(0, |(block, _)| block.len()),
    }
}

impl Block {
    /// Checks the container's own invariants and that there is exactly one, with members.
    pub(super) fn validate(&self) -> Result<(), &'static str> {
        self.0.internal_validate()?;
        if self.0.statistics().n_containers != 1
            || self.0.max().is_none_or(|m| m > u32::from(u16::MAX))
        {
            return Err("block: not one container");
        }
        Ok(())
    }
}
