//! Offsets and foreign IDs.
//!
//! The entries of a log have the IDs 0-1, 0-2, 0-3 ...: the second part is the offset. All other IDs are foreign.

/// The greatest offset: Lua scripts count in floating point.
pub(crate) const MAX_OFFSET: u64 = (1 << 53) - 1;

/// The greatest distance between two consecutive offsets of a log. An offset at a greater distance is foreign: no log loses that
/// many entries, and another client cannot use up the range of offsets with a few entries.
pub(super) const MAX_GAP: u64 = 1 << 32;

/// The last ID of a closed log, which refuses appends until `countd log reset`: no `0-*` fits after it.
pub(super) const CLOSED: (u64, u64) = (u64::MAX, 13_834_321_097_531_834_207);

/// The maximum number of entries that a script call copies. The script blocks the server.
pub(super) const COPY_LIMIT: usize = 1_000;

/// The offset of an entry ID; `None` if the ID is foreign.
pub(crate) fn offset(id: &[u8]) -> Option<u64> {
    let number = std::str::from_utf8(id).ok()?.strip_prefix("0-")?;
    number.parse().ok().filter(|offset| *offset <= MAX_OFFSET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_ids_have_no_offset() {
        assert_eq!(offset(b"0-1"), Some(1));
        assert_eq!(offset(b"0-9007199254740991"), Some(MAX_OFFSET));
        for foreign in [
            &b"0-9007199254740992"[..],
            b"0-18446744073709551615",
            b"1-1",
            b"1700000000000-0",
            b"0",
            b"0-",
            b"0-x",
            b"\xff",
        ] {
            assert_eq!(offset(foreign), None, "{foreign:?}");
        }
    }
}
