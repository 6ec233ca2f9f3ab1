//! Reading the portable 64-bit Roaring format. The bytes are not trusted.
//!
//! The frame is parsed here, because the `roaring` crate would accept keys out of order, empty bitmaps, wrong cardinalities of
//! runs and trailing bytes, and would allocate memory for containers that are not there. The crate decodes only the
//! payloads of single containers, after their length was checked.

use byteorder::{LE, ReadBytesExt};

use super::builder::Builder;
use super::chunk::join;
use super::dense::{ARRAY_MAX, BITMAP_BYTES, COOKIE_PLAIN, COOKIE_RUNS, Dense};
use super::error::SetError;
use super::portable::OFFSETS_FROM;
use super::set::IdSet;

impl IdSet {
    /// Decodes a set in the portable 64-bit Roaring format, with array, bitmap and run containers.
    ///
    /// Memory stays within about 15 times `bytes`; the worst case are containers of one run.
    ///
    /// # Errors
    /// [`SetError::Payload`] also for keys out of order, empty bitmaps, wrong cardinalities and offsets, adjacent runs, and
    /// trailing bytes.
    pub fn from_portable(bytes: &[u8]) -> Result<IdSet, SetError> {
        let mut set = Builder::default();
        read_set(bytes, &mut set)?;
        set.finish()
    }
}

/// Adds the members of a whole serialization, which are greater than all members of `set`.
pub(super) fn read_set(mut bytes: &[u8], set: &mut Builder) -> Result<(), SetError> {
    let halves = bytes.read_u64::<LE>()?;
    let mut last = None;
    for _ in 0..halves {
        let half = bytes.read_u32::<LE>()?;
        if last.is_some_and(|last| half <= last) {
            return Err(SetError::Payload);
        }
        last = Some(half);
        read_bitmap(u64::from(half) << 16, &mut bytes, set)?;
    }
    if bytes.is_empty() {
        Ok(())
    } else {
        Err(SetError::Payload)
    }
}

/// Adds the members of one 32-bit bitmap, whose first chunk would have the key `base`.
fn read_bitmap(base: u64, bytes: &mut &[u8], set: &mut Builder) -> Result<(), SetError> {
    let begin = bytes.len();
    let cookie = bytes.read_u32::<LE>()?;
    let (n, flags) = if cookie == COOKIE_PLAIN {
        (bytes.read_u32::<LE>()? as usize, None)
    } else if cookie & 0xffff == COOKIE_RUNS {
        let n = (cookie >> 16) as usize + 1;
        (n, Some(take(bytes, n.div_ceil(8))?))
    } else {
        return Err(SetError::Payload);
    };
    if n == 0 || n > 1 << 16 {
        return Err(SetError::Payload);
    }
    let mut heads = take(bytes, 4 * n)?;
    let mut offsets = if flags.is_none() || n >= OFFSETS_FROM {
        Some(take(bytes, 4 * n)?)
    } else {
        None
    };
    let mut last = None;
    for i in 0..n {
        let offset = (begin - bytes.len()) as u32;
        if let Some(offsets) = &mut offsets
            && offsets.read_u32::<LE>()? != offset
        {
            return Err(SetError::Payload);
        }
        let key = heads.read_u16::<LE>()?;
        let cardinality = u32::from(heads.read_u16::<LE>()?) + 1;
        let run = flags.is_some_and(|bits| bits[i / 8] >> (i % 8) & 1 == 1);
        let payload = take_container(bytes, run, cardinality)?;
        // The builder would accept a chunk in two parts.
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

/// Takes the first `n` bytes.
fn take<'a>(bytes: &mut &'a [u8], n: usize) -> Result<&'a [u8], SetError> {
    bytes.split_off(..n).ok_or(SetError::Payload)
}

/// Takes the payload of a container.
fn take_container<'a>(
    bytes: &mut &'a [u8],
    run: bool,
    cardinality: u32,
) -> Result<&'a [u8], SetError> {
    let mut payload = *bytes;
    let len = if run {
        2 + 4 * usize::from(payload.read_u16::<LE>()?)
    } else if u64::from(cardinality) <= ARRAY_MAX {
        2 * cardinality as usize
    } else {
        BITMAP_BYTES
    };
    take(bytes, len)
}
