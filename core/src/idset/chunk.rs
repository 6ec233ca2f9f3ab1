//! Chunks: blocks of 65,536 consecutive ids. The high 48 bits of an id are the number (key) of its chunk.

/// The chunk of `m`, and its position there.
#[inline]
pub(super) fn split(m: u64) -> (u64, u16) {
    (m >> 16, m as u16)
}

/// The inverse of [`split`].
#[inline]
pub(super) fn join(key: u64, low: u16) -> u64 {
    key << 16 | u64::from(low)
}

/// The first and the last id of a chunk.
pub(super) fn bounds(key: u64) -> (u64, u64) {
    (join(key, 0), join(key, u16::MAX))
}
