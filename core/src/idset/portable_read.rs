//! Reading the portable 64-bit Roaring format, where every byte may be a lie.
//!
//! The frame is parsed here, because the `roaring` crate would take keys out of order, empty bitmaps, cardinalities of runs
//! that are wrong and bytes after the end, and would allocate for containers that are not there. Only the payload of a
//! single container, with as many bytes as it needs, goes to the crate.

use super::builder::Builder;
use super::dense::{ARRAY_MAX, BITMAP_BYTES, Dense};
use super::portable::{COOKIE_PLAIN, COOKIE_RUNS, OFFSETS_FROM};
use super::tree::join;
use super::{IdSet, SetError};

impl IdSet {
    /// The set of which `bytes` are the portable 64-bit Roaring serialization, with array, bitmap and run containers.
    ///
    /// Strict: keys that do not ascend, an empty bitmap, a cardinality or an offset that is not the true one, runs that
    /// touch, and bytes after the end are [`SetError::Payload`]. Memory stays within about 15 times `bytes`: the worst are
    /// containers of one run.
    pub fn from_portable(bytes: &[u8]) -> Result<IdSet, SetError> {
        let mut set = Builder::default();
        read_set(bytes, &mut set)?;
        set.finish()
    }
}

/// Adds the members of a whole serialization, all greater than what is in `set`.
pub(super) fn read_set(bytes: &[u8], set: &mut Builder) -> Result<(), SetError> {
    let mut rest = Reader(bytes);
    let halves = u64::from_le_bytes(rest.array()?);
    let mut last = None;
    for _ in 0..halves {
        let half = u32::from_le_bytes(rest.array()?);
        if last.is_some_and(|last| half <= last) {
            return Err(SetError::Payload);
        }
        last = Some(half);
        read_bitmap(u64::from(half) << 16, &mut rest, set)?;
    }
    if rest.0.is_empty() {
        Ok(())
    } else {
        Err(SetError::Payload)
    }
}

/// One 32-bit bitmap, whose first chunk would be number `base`.
fn read_bitmap(base: u64, rest: &mut Reader<'_>, set: &mut Builder) -> Result<(), SetError> {
    let begin = rest.0.len();
    let cookie = u32::from_le_bytes(rest.array()?);
    let (n, flags) = if cookie == COOKIE_PLAIN {
        (u32::from_le_bytes(rest.array()?) as usize, None)
    } else if cookie & 0xffff == COOKIE_RUNS {
        let n = (cookie >> 16) as usize + 1;
        (n, Some(rest.take(n.div_ceil(8))?))
    } else {
        return Err(SetError::Payload);
    };
    if n == 0 || n > 1 << 16 {
        return Err(SetError::Payload);
    }
    let heads = rest.take(4 * n)?;
    let offsets = if flags.is_none() || n >= OFFSETS_FROM {
        Some(rest.take(4 * n)?)
    } else {
        None
    };
    let mut last = None;
    for i in 0..n {
        let offset = begin - rest.0.len();
        if offsets.is_some_and(|all| all[4 * i..4 * i + 4] != (offset as u32).to_le_bytes()) {
            return Err(SetError::Payload);
        }
        let key = u16::from_le_bytes([heads[4 * i], heads[4 * i + 1]]);
        let cardinality = u32::from(u16::from_le_bytes([heads[4 * i + 2], heads[4 * i + 3]])) + 1;
        let run = flags.is_some_and(|bits| bits[i / 8] >> (i % 8) & 1 == 1);
        let payload = rest.container(run, cardinality)?;
        // The set itself would take a chunk in two parts.
        if last.is_some_and(|last| key <= last) {
            return Err(SetError::Payload);
        }
        last = Some(key);
        let key = base | u64::from(key);
        if run || u64::from(cardinality) > ARRAY_MAX {
            set.push_dense(key, Dense::from_payload(run, cardinality, payload)?)?;
        } else {
            let lows = payload.as_chunks().0.iter().copied();
            lows.map(u16::from_le_bytes)
                .try_for_each(|low| set.push(join(key, low)))?;
        }
    }
    Ok(())
}

/// The bytes that are left.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], SetError> {
        let (head, tail) = self.0.split_at_checked(n).ok_or(SetError::Payload)?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SetError> {
        self.take(N)?.try_into().map_err(|_| SetError::Payload)
    }

    /// The payload of a container.
    fn container(&mut self, run: bool, cardinality: u32) -> Result<&'a [u8], SetError> {
        let len = if run {
            let runs = self.0.first_chunk::<2>().ok_or(SetError::Payload)?;
            2 + 4 * usize::from(u16::from_le_bytes(*runs))
        } else if u64::from(cardinality) <= ARRAY_MAX {
            2 * cardinality as usize
        } else {
            BITMAP_BYTES
        };
        self.take(len)
    }
}
