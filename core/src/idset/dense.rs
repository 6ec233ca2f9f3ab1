//! A dense chunk: the members among 65,536 consecutive ids, as a `RoaringBitmap` with a single container.
//!
//! No other file uses the `roaring` crate.

use std::io::{self, Read, Write};

use byteorder::{ByteOrder, LE};
use roaring::RoaringBitmap;

use super::error::SetError;
use super::op::SetOp;

/// The largest cardinality of an array container. Larger containers are bitmaps, or runs.
pub(super) const ARRAY_MAX: u64 = 4096;
/// The cardinality of a full container.
const FULL: u64 = 1 << 16;
/// Bytes of a bitmap container.
pub(super) const BITMAP_BYTES: usize = 8192;

/// Containers of at most this number of members are never runs, because runs would not save memory.
const RUN_MIN: u64 = 64;

/// The cookie of a portable bitmap without run containers.
pub(super) const COOKIE_PLAIN: u32 = 12346;
/// The cookie of a portable bitmap with run containers.
pub(super) const COOKIE_RUNS: u32 = 12347;
/// The size of the header of a bitmap of one container: cookie, number of containers, key, cardinality, offset.
const PLAIN_HEAD: usize = 16;
/// The same for a run container: cookie with the number of containers, flags, key, cardinality.
const RUN_HEAD: usize = 9;

/// A non-empty set of `u16`: a bitmap; an array, after removals; or runs, if loaded as runs or created by a set
/// operation.
#[derive(Clone, PartialEq)]
pub(super) struct Dense {
    bits: RoaringBitmap,
    /// Whether the container is runs. Runs are expanded before a change.
    run: bool,
}

impl Dense {
    /// The chunk of these members, which are in strictly ascending order. `None` without members.
    pub(super) fn from_sorted(lows: &[u16]) -> Option<Dense> {
        let mut bits = RoaringBitmap::new();
        // Fails only for members out of order.
        let appended = bits.append(lows.iter().map(|&low| u32::from(low)));
        debug_assert!(appended.is_ok());
        // The copy has no spare capacity.
        let bits = bits.clone();
        (!lows.is_empty()).then_some(Dense { bits, run: false })
    }

    /// Decodes the payload of one container. The caller has checked that it has the length that its header requires.
    ///
    /// # Errors
    /// [`SetError::Payload`] when members are out of order or the cardinality is another.
    pub(super) fn from_payload(
        run: bool,
        cardinality: u32,
        payload: &[u8],
    ) -> Result<Dense, SetError> {
        let less_one = u16::try_from(cardinality - 1).map_err(|_| SetError::Payload)?;
        let mut head = [0; PLAIN_HEAD];
        let head = if run {
            LE::write_u32(&mut head[..4], COOKIE_RUNS);
            head[4] = 1;
            LE::write_u16(&mut head[7..9], less_one);
            &head[..RUN_HEAD]
        } else {
            LE::write_u32_into(&[COOKIE_PLAIN, 1], &mut head[..8]);
            LE::write_u16(&mut head[10..12], less_one);
            &head[..]
        };
        let bits = RoaringBitmap::deserialize_from(head.chain(payload))?;
        let mut dense = Dense { bits, run };
        // The crate checks the order of everything and the cardinality of bitmaps, but not that of runs.
        if dense.len() != u64::from(cardinality) {
            return Err(SetError::Payload);
        }
        if run {
            dense.optimize();
        }
        Ok(dense)
    }

    /// The number of members, 1 ..= 65536. O(1), for runs O(runs).
    pub(super) fn len(&self) -> u64 {
        self.bits.len()
    }

    #[inline]
    pub(super) fn contains(&self, low: u16) -> bool {
        self.bits.contains(u32::from(low))
    }

    pub(super) fn insert(&mut self, low: u16) -> bool {
        if self.run {
            if self.contains(low) {
                return false;
            }
            self.expand_runs();
        }
        self.bits.insert(u32::from(low))
    }

    /// Removes a member. The caller must drop a chunk that becomes empty.
    pub(super) fn remove(&mut self, low: u16) -> bool {
        if self.run {
            if !self.contains(low) {
                return false;
            }
            self.expand_runs();
        }
        self.bits.remove(u32::from(low))
    }

    pub(super) fn min(&self) -> Option<u16> {
        self.bits.min().map(|m| m as u16)
    }

    pub(super) fn max(&self) -> Option<u16> {
        self.bits.max().map(|m| m as u16)
    }

    /// The number of members in `min ..= max`.
    pub(super) fn count(&self, min: u16, max: u16) -> u64 {
        self.bits.range_cardinality(u32::from(min)..=u32::from(max))
    }

    pub(super) fn select(&self, rank: u64) -> Option<u16> {
        self.bits
            .select(u32::try_from(rank).ok()?)
            .map(|m| m as u16)
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = u16> + '_ {
        self.bits.iter().map(|m| m as u16)
    }

    /// Appends up to `limit` members from `from` on, ascending, each with `base` added. `buffer` is working memory.
    pub(super) fn copy_up(
        &self,
        base: u64,
        from: u16,
        limit: usize,
        buffer: &mut [u32],
        out: &mut Vec<u64>,
    ) {
        // For a single run of all 65,536 members, `next_many` returns nothing: its length overflows (roaring 0.12.0).
        if from == 0 && self.len() == FULL {
            let all = (0..=u64::from(u16::MAX)).take(limit);
            out.extend(all.map(|low| base | low));
            return;
        }
        let mut members = self.bits.range(u32::from(from)..);
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
        let mut members = self.bits.range(..=u32::from(upto));
        for _ in 0..limit {
            let Some(m) = members.next_back() else { return };
            out.push(base | u64::from(m));
        }
    }

    /// The members in `min ..= max`, if any.
    pub(super) fn part(&self, min: u16, max: u16) -> Option<Dense> {
        let mut bits = self.bits.clone();
        if min > 0 {
            bits.remove_range(..u32::from(min));
        }
        if max < u16::MAX {
            bits.remove_range(u32::from(max) + 1..);
        }
        Dense::optimized(bits)
    }

    fn optimized(bits: RoaringBitmap) -> Option<Dense> {
        if bits.is_empty() {
            return None;
        }
        let mut dense = Dense { bits, run: false };
        dense.optimize();
        Some(dense)
    }

    /// Whether the container is runs.
    pub(super) fn is_run(&self) -> bool {
        self.run
    }

    /// Whether the container of the `roaring` crate is runs. Slower than the flag.
    fn has_runs(&self) -> bool {
        self.bits.statistics().n_run_containers == 1
    }

    /// Converts to the smallest kind of container.
    pub(super) fn optimize(&mut self) {
        if self.len() <= RUN_MIN {
            self.expand_runs();
        } else {
            self.bits.optimize();
            self.run = self.has_runs();
        }
    }

    /// Converts runs to an array or a bitmap. The crate would let changed runs grow to 16 times the size of a bitmap.
    fn expand_runs(&mut self) {
        self.bits.remove_run_compression();
        self.run = false;
    }

    /// Adds all members of `other`.
    pub(super) fn union_with(&mut self, other: Dense) {
        let run = self.run || other.run;
        self.bits |= other.bits;
        self.run = self.has_runs();
        if run {
            self.optimize();
        }
        // The copy has no spare capacity.
        self.bits = self.bits.clone();
    }

    /// The size in bytes of the container in the portable format, without its header.
    pub(super) fn payload_len(&self) -> usize {
        match self.len() {
            _ if self.run => self.bits.serialized_size() - RUN_HEAD,
            len if len <= ARRAY_MAX => 2 * len as usize,
            _ => BITMAP_BYTES,
        }
    }

    /// Appends the bytes of the container in the portable format, without its header.
    pub(super) fn write_payload(&self, out: &mut Vec<u8>) {
        let mut tail = SkipFirst {
            skip: if self.run { RUN_HEAD } else { PLAIN_HEAD },
            out,
        };
        // Writing to a Vec cannot fail.
        let _ = self.bits.serialize_into(&mut tail);
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

/// The result of `op` on these chunks, in this order. `None` when it has no members.
pub(super) fn merge(op: SetOp, chunks: &[&Dense]) -> Option<Dense> {
    let (first, rest) = chunks.split_first()?;
    let Some((second, rest)) = rest.split_first() else {
        return Dense::optimized(first.bits.clone());
    };
    let (a, b) = (&first.bits, &second.bits);
    let mut bits = match op {
        SetOp::And => a & b,
        SetOp::Or => a | b,
        SetOp::Xor => a ^ b,
        SetOp::Diff => a - b,
    };
    for next in rest {
        let next = &next.bits;
        match op {
            SetOp::And => bits &= next,
            SetOp::Or => bits |= next,
            SetOp::Xor => bits ^= next,
            SetOp::Diff => bits -= next,
        }
    }
    let mut dense = Dense::optimized(bits)?;
    dense.bits = dense.bits.clone();
    Some(dense)
}

/// The cardinality of the result of [`merge`]. For up to two chunks the result is not built.
pub(super) fn merge_len(op: SetOp, chunks: &[&Dense]) -> u64 {
    match chunks {
        [] => 0,
        [one] => one.len(),
        [a, b] => match op {
            SetOp::And => a.bits.intersection_len(&b.bits),
            SetOp::Or => a.bits.union_len(&b.bits),
            SetOp::Xor => a.bits.symmetric_difference_len(&b.bits),
            SetOp::Diff => a.bits.difference_len(&b.bits),
        },
        _ => merge(op, chunks).map_or(0, |dense| dense.len()),
    }
}

impl Dense {
    /// Checks the invariants of the crate, and that there is exactly one container with members.
    pub(super) fn validate(&self) -> Result<(), &'static str> {
        self.bits.internal_validate()?;
        if self.bits.statistics().n_containers != 1
            || self.bits.max().is_none_or(|m| m > u32::from(u16::MAX))
        {
            return Err("dense: not one container");
        }
        if self.run != self.has_runs() {
            return Err("dense: wrong flag for runs");
        }
        Ok(())
    }
}
