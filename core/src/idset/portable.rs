//! Writing the portable 64-bit Roaring format (<https://github.com/RoaringBitmap/RoaringFormatSpec>), which CRoaring and
//! RoaringBitmap for Java and Go read: the number of high halves, then for each the high 32 bits and a 32-bit bitmap.

use std::borrow::Cow;

use super::block::Block;
use super::roaring::{Roaring, split};
use super::{IdSet, Repr};

pub(super) const COOKIE_PLAIN: u32 = 12346;
pub(super) const COOKIE_RUNS: u32 = 12347;
/// A bitmap with runs has offsets from this number of containers on; one without always.
pub(super) const OFFSETS_FROM: usize = 4;

/// A serialized set is at least this long.
pub(super) const EMPTY_BYTES: usize = 8;

/// The smallest limit that [`IdSet::export_chunks`] can keep: a block may need 8 KB.
const MIN_CHUNK: usize = 16 << 10;

impl IdSet {
    /// All members in the portable 64-bit Roaring format.
    pub fn export(&self) -> Vec<u8> {
        self.export_range(0, u64::MAX)
    }

    /// The members in `min ..= max` in that format; with `min > max` an exported empty set.
    pub fn export_range(&self, min: u64, max: u64) -> Vec<u8> {
        self.with_blocks(|set| {
            let mut writer = Writer::default();
            pieces(set, min, max).for_each(|piece| writer.push(piece));
            writer.finish()
        })
    }

    /// All members as a series of sets in that format, ascending, each of at most `max_bytes` (at least 16 KB). `emit`
    /// returns false to stop. An empty set emits nothing.
    pub fn export_chunks(&self, max_bytes: usize, emit: &mut dyn FnMut(&[u8]) -> bool) {
        let max_bytes = max_bytes.max(MIN_CHUNK);
        self.with_blocks(|set| {
            let mut writer = Writer::default();
            for piece in pieces(set, 0, u64::MAX) {
                if !writer.is_empty()
                    && writer.size_with(&piece) > max_bytes
                    && !emit(&std::mem::take(&mut writer).finish())
                {
                    return;
                }
                writer.push(piece);
            }
            if !writer.is_empty() {
                emit(&writer.finish());
            }
        });
    }

    /// Calls `f` with the set as blocks, made for the occasion when it is small.
    fn with_blocks<R>(&self, f: impl FnOnce(&Roaring) -> R) -> R {
        match &self.0 {
            Repr::Compact(c) => f(&Roaring::from_sorted(c.iter())),
            Repr::Roaring(r) => f(r),
        }
    }
}

/// A block on its way out.
pub(super) struct Piece<'a> {
    pub(super) key: u64,
    pub(super) block: Cow<'a, Block>,
    run: bool,
    payload: usize,
}

/// The blocks of `set`, of which the first and the last are cut to `min ..= max`.
pub(super) fn pieces(set: &Roaring, min: u64, max: u64) -> impl Iterator<Item = Piece<'_>> {
    let ((first, low), (last, high)) = (split(min), split(max));
    let blocks = (min <= max).then(|| set.blocks.range(first..=last));
    blocks
        .into_iter()
        .flatten()
        .filter_map(move |(&key, block)| {
            let from = if key == first { low } else { 0 };
            let upto = if key == last { high } else { u16::MAX };
            let (block, run) = if from == 0 && upto == u16::MAX {
                (Cow::Borrowed(block), set.is_run(key))
            } else {
                let (part, run) = block.part(from, upto)?;
                (Cow::Owned(part), run)
            };
            let payload = block.payload_len(run);
            Some(Piece {
                key,
                block,
                run,
                payload,
            })
        })
}

impl Piece<'_> {
    /// The most bytes that this piece adds: its payload, its share of the head, and the head if the half is new.
    pub(super) fn cost(&self, half: Option<u32>) -> usize {
        // A high half: its number, cookie, number of containers. A container: key, cardinality, offset, one bit.
        let head = if half == Some(self.half()) { 0 } else { 4 + 8 };
        head + 9 + self.payload
    }

    pub(super) fn half(&self) -> u32 {
        (self.key >> 16) as u32
    }
}

/// Collects the blocks of one high half, then writes them, because their heads come before them all.
pub(super) struct Writer<'a> {
    out: Vec<u8>,
    halves: u64,
    half: Vec<Piece<'a>>,
    /// Not less than the bytes of what was pushed.
    size: usize,
}

impl Default for Writer<'_> {
    fn default() -> Self {
        Writer {
            out: vec![0; EMPTY_BYTES],
            halves: 0,
            half: Vec::new(),
            size: EMPTY_BYTES,
        }
    }
}

impl<'a> Writer<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.half.is_empty()
    }

    fn cost(&self, piece: &Piece<'_>) -> usize {
        piece.cost(self.half.last().map(Piece::half))
    }

    /// An upper bound of the size, were this piece added.
    pub(super) fn size_with(&self, piece: &Piece<'_>) -> usize {
        self.size + self.cost(piece)
    }

    /// Adds a block with a key greater than all before.
    pub(super) fn push(&mut self, piece: Piece<'a>) {
        self.size += self.cost(&piece);
        if self
            .half
            .last()
            .is_some_and(|last| last.half() != piece.half())
        {
            self.write_half();
        }
        self.half.push(piece);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.write_half();
        self.out[..EMPTY_BYTES].copy_from_slice(&self.halves.to_le_bytes());
        debug_assert!(self.out.len() <= self.size);
        self.out
    }

    fn write_half(&mut self) {
        let Some(first) = self.half.first() else {
            return;
        };
        self.out.extend_from_slice(&first.half().to_le_bytes());
        self.halves += 1;
        self.write_head();
        for piece in self.half.drain(..) {
            piece.block.write_payload(piece.run, &mut self.out);
        }
    }

    /// Cookie, number and kinds of the containers, their keys and cardinalities, and where each begins.
    fn write_head(&mut self) {
        let (half, out) = (&self.half, &mut self.out);
        let (start, n) = (out.len(), half.len());
        let runs = half.iter().any(|piece| piece.run);
        if runs {
            out.extend_from_slice(&(COOKIE_RUNS | (n as u32 - 1) << 16).to_le_bytes());
            out.extend(half.chunks(8).map(|eight| {
                let bits = eight.iter().enumerate();
                bits.fold(0, |byte, (i, piece)| byte | u8::from(piece.run) << i)
            }));
        } else {
            out.extend_from_slice(&COOKIE_PLAIN.to_le_bytes());
            out.extend_from_slice(&(n as u32).to_le_bytes());
        }
        for piece in half {
            out.extend_from_slice(&(piece.key as u16).to_le_bytes());
            out.extend_from_slice(&((piece.block.len() - 1) as u16).to_le_bytes());
        }
        if !runs || n >= OFFSETS_FROM {
            let mut offset = out.len() - start + 4 * n;
            for piece in half {
                out.extend_from_slice(&(offset as u32).to_le_bytes());
                offset += piece.payload;
            }
        }
    }
}
