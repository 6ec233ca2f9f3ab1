//! Writing the portable 64-bit Roaring format (<https://github.com/RoaringBitmap/RoaringFormatSpec>), which CRoaring and
//! RoaringBitmap for Java and Go read: the number of high halves, then for each the high 32 bits and a 32-bit bitmap.

use byteorder::{ByteOrder, LE};
use bytes::BufMut;

use super::chunk::{bounds, split};
use super::dense::{ARRAY_MAX, BITMAP_BYTES, COOKIE_PLAIN, COOKIE_RUNS, Dense};
use super::nodes::NodeRef;
use super::set::IdSet;

/// A bitmap with runs has offsets if it has at least this number of containers. A bitmap without runs always has.
pub(super) const OFFSETS_FROM: usize = 4;

/// The size of the empty set in bytes.
pub(super) const EMPTY_BYTES: usize = 8;

/// The smallest limit that [`IdSet::export_chunks`] can observe: a container may need 8 KB.
const MIN_CHUNK: usize = 16 << 10;

impl IdSet {
    /// All members in the portable 64-bit Roaring format.
    pub fn export(&self) -> Vec<u8> {
        self.export_range(0, u64::MAX)
    }

    /// The members in `min ..= max` in that format; the empty set if `min > max`.
    pub fn export_range(&self, min: u64, max: u64) -> Vec<u8> {
        let mut writer = Writer::default();
        self.each_container(min, max, &mut |key, container| {
            writer.push(key, &container);
            true
        });
        writer.finish()
    }

    /// All members as a sequence of sets in that format, ascending, each of at most `max_bytes` (at least 16 KB). `emit`
    /// returns false to stop. Nothing is emitted for an empty set.
    pub fn export_chunks(&self, max_bytes: usize, emit: &mut dyn FnMut(&[u8]) -> bool) {
        let max_bytes = max_bytes.max(MIN_CHUNK);
        let mut writer = Writer::default();
        let all = self.each_container(0, u64::MAX, &mut |key, container| {
            let full = writer.size() > EMPTY_BYTES && writer.size_with(key, &container) > max_bytes;
            if full && !emit(&std::mem::take(&mut writer).finish()) {
                return false;
            }
            writer.push(key, &container);
            true
        });
        if all && writer.size() > EMPTY_BYTES {
            emit(&writer.finish());
        }
    }

    /// Calls `f` with the key of each chunk and its members in `min ..= max`, ascending. Stops and returns false when `f`
    /// returns false.
    fn each_container(
        &self,
        min: u64,
        max: u64,
        f: &mut dyn FnMut(u64, Container<'_>) -> bool,
    ) -> bool {
        let mut lows = Lows::default();
        for node in self.nodes_from(min) {
            match node {
                NodeRef::Page(page) => {
                    for m in page.slice(page.rank(min)..page.rank_after(max)) {
                        if !lows.push(m, f) {
                            return false;
                        }
                    }
                    if page.max() >= Some(max) {
                        break;
                    }
                }
                NodeRef::Dense(key, dense) => {
                    let (first, last) = bounds(key);
                    if first > max {
                        break;
                    }
                    let more = lows.emit(f) && (last < min || emit_part(key, dense, min, max, f));
                    if !more {
                        return false;
                    }
                }
            }
        }
        lows.emit(f)
    }
}

fn emit_part(
    key: u64,
    dense: &Dense,
    min: u64,
    max: u64,
    f: &mut dyn FnMut(u64, Container<'_>) -> bool,
) -> bool {
    let (first, last) = bounds(key);
    if min <= first && last <= max {
        return f(key, Container::Dense(dense));
    }
    if min > max {
        return true;
    }
    match dense.part(min.max(first) as u16, max.min(last) as u16) {
        Some(part) => f(key, Container::Dense(&part)),
        None => true,
    }
}

/// The members of a chunk to be written.
pub(super) enum Container<'a> {
    /// Members in ascending order.
    Lows(&'a [u16]),
    /// A dense chunk.
    Dense(&'a Dense),
}

impl Container<'_> {
    fn len(&self) -> u64 {
        match self {
            Container::Lows(lows) => lows.len() as u64,
            Container::Dense(dense) => dense.len(),
        }
    }

    fn is_run(&self) -> bool {
        matches!(self, Container::Dense(dense) if dense.is_run())
    }

    fn payload_len(&self) -> usize {
        match self {
            Container::Lows(lows) if lows.len() as u64 <= ARRAY_MAX => 2 * lows.len(),
            Container::Lows(_) => BITMAP_BYTES,
            Container::Dense(dense) => dense.payload_len(),
        }
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        match self {
            Container::Lows(lows) if lows.len() as u64 <= ARRAY_MAX => {
                out.extend(lows.iter().flat_map(|low| low.to_le_bytes()));
            }
            Container::Lows(lows) => {
                let start = out.len();
                out.resize(start + BITMAP_BYTES, 0);
                let bits = &mut out[start..];
                lows.iter()
                    .for_each(|&low| bits[usize::from(low / 8)] |= 1 << (low % 8));
            }
            Container::Dense(dense) => dense.write_payload(out),
        }
    }
}

/// Collects the members of pages until a chunk is complete.
#[derive(Default)]
struct Lows {
    key: u64,
    lows: Vec<u16>,
}

impl Lows {
    fn push(&mut self, m: u64, f: &mut dyn FnMut(u64, Container<'_>) -> bool) -> bool {
        let (key, low) = split(m);
        if key != self.key && !self.emit(f) {
            return false;
        }
        self.key = key;
        self.lows.push(low);
        true
    }

    fn emit(&mut self, f: &mut dyn FnMut(u64, Container<'_>) -> bool) -> bool {
        let more = self.lows.is_empty() || f(self.key, Container::Lows(&self.lows));
        self.lows.clear();
        more
    }
}

/// The header of a container.
struct Head {
    key: u16,
    /// The cardinality.
    len: u64,
    run: bool,
    /// The size of its payload in bytes.
    payload: usize,
}

/// Collects the containers of one high half, then writes them, since all headers precede the payloads.
pub(super) struct Writer {
    out: Vec<u8>,
    halves: u64,
    /// The high half of `heads` and `payloads`.
    half: u32,
    heads: Vec<Head>,
    payloads: Vec<u8>,
    /// An upper bound of the size.
    size: usize,
}

impl Default for Writer {
    fn default() -> Self {
        Writer {
            out: vec![0; EMPTY_BYTES],
            halves: 0,
            half: 0,
            heads: Vec::new(),
            payloads: Vec::new(),
            size: EMPTY_BYTES,
        }
    }
}

impl Writer {
    /// An upper bound of the size.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// The upper bound after adding this container.
    pub(super) fn size_with(&self, key: u64, container: &Container<'_>) -> usize {
        // A high half: its number, cookie, number of containers. A container: key, cardinality, offset, one bit.
        let same = !self.heads.is_empty() && self.half == (key >> 16) as u32;
        let head = if same { 0 } else { 4 + 8 };
        self.size + head + 9 + container.payload_len()
    }

    /// Adds a container, whose key is greater than all earlier ones.
    pub(super) fn push(&mut self, key: u64, container: &Container<'_>) {
        self.size = self.size_with(key, container);
        let half = (key >> 16) as u32;
        if half != self.half {
            self.write_half();
        }
        self.half = half;
        let before = self.payloads.len();
        container.write_payload(&mut self.payloads);
        self.heads.push(Head {
            key: key as u16,
            len: container.len(),
            run: container.is_run(),
            payload: self.payloads.len() - before,
        });
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.write_half();
        LE::write_u64(&mut self.out, self.halves);
        debug_assert!(self.out.len() <= self.size);
        self.out
    }

    fn write_half(&mut self) {
        if self.heads.is_empty() {
            return;
        }
        self.out.put_u32_le(self.half);
        self.halves += 1;
        self.write_heads();
        self.out.append(&mut self.payloads);
        self.heads.clear();
    }

    /// Writes the cookie, the number and kinds of the containers, their keys, cardinalities and offsets.
    fn write_heads(&mut self) {
        let (heads, out) = (&self.heads, &mut self.out);
        let (start, n) = (out.len(), heads.len());
        let runs = heads.iter().any(|head| head.run);
        if runs {
            out.put_u32_le(COOKIE_RUNS | (n as u32 - 1) << 16);
            out.extend(heads.chunks(8).map(|eight| {
                let bits = eight.iter().enumerate();
                bits.fold(0, |byte, (i, head)| byte | u8::from(head.run) << i)
            }));
        } else {
            out.put_u32_le(COOKIE_PLAIN);
            out.put_u32_le(n as u32);
        }
        for head in heads {
            out.put_u16_le(head.key);
            out.put_u16_le((head.len - 1) as u16);
        }
        if !runs || n >= OFFSETS_FROM {
            let mut offset = out.len() - start + 4 * n;
            for head in heads {
                out.put_u32_le(offset as u32);
                offset += head.payload;
            }
        }
    }
}
