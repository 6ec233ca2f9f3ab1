//! Integers and frames of segments.
//!
//! A frame is the length of its compressed bytes and their CRC-32C, each as 4 bytes (little-endian), and these bytes.

use std::io::{self, Read};

/// The maximum size of a frame before compression, in bytes. A longer one is damaged.
const MAX_FRAME: u64 = 256 << 20;
/// The maximum logarithm of the window of zstd. No level up to 19 has a larger one.
const MAX_WINDOW_LOG: u32 = 23;
/// The size of the header of a frame.
const HEADER: usize = 8;

/// Appends an integer, 7 bits a byte, the lowest first.
pub(super) fn put_integer(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Takes an integer from the front.
pub(super) fn take_integer(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Takes this many bytes from the front.
pub(super) fn take_bytes<'a>(from: &mut &'a [u8], count: u64) -> Option<&'a [u8]> {
    let count = usize::try_from(count).ok()?;
    let (bytes, rest) = from.split_at_checked(count)?;
    *from = rest;
    Some(bytes)
}

/// Appends a frame.
pub(super) fn put_frame(to: &mut Vec<u8>, raw: &[u8], level: i32) -> io::Result<()> {
    let compressed = zstd::bulk::compress(raw, level)?;
    let length = u32::try_from(compressed.len()).map_err(io::Error::other)?;
    to.extend(length.to_le_bytes());
    to.extend(crc32c::crc32c(&compressed).to_le_bytes());
    to.extend(compressed);
    Ok(())
}

/// Takes a frame from the front, and decompresses it.
///
/// # Errors
/// What is wrong with it.
pub(super) fn take_frame(from: &mut &[u8]) -> Result<Vec<u8>, String> {
    let header = take_bytes(from, HEADER as u64).ok_or("a frame is cut off")?;
    let (length, crc) = header.split_at(4);
    let number = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes).unwrap_or(0);
    let compressed = take_bytes(from, number(length).into()).ok_or("a frame is cut off")?;
    if crc32c::crc32c(compressed) != number(crc) {
        return Err("the checksum of a frame does not match".to_owned());
    }
    // The sizes in a frame may be wrong, so memory is taken for what is decompressed.
    let decompress = || -> io::Result<Vec<u8>> {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(compressed)?;
        decoder.window_log_max(MAX_WINDOW_LOG)?;
        let mut raw = Vec::new();
        decoder.take(MAX_FRAME + 1).read_to_end(&mut raw)?;
        Ok(raw)
    };
    match decompress() {
        Ok(raw) if raw.len() as u64 > MAX_FRAME => Err("a frame is too long".to_owned()),
        raw => raw.map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_integer(&mut bytes, value);
            assert_eq!(take_integer(&mut bytes.as_slice()), Some(value));
            bytes.pop();
            assert_eq!(take_integer(&mut bytes.as_slice()), None, "{value}");
        }
        assert_eq!(take_integer(&mut [0xff; 10].as_slice()), None);
    }

    #[test]
    fn a_frame_that_is_cut_or_changed_is_refused() {
        let raw = b"like like like like".repeat(10);
        let mut frame = Vec::new();
        put_frame(&mut frame, &raw, 3).expect("compressed");
        assert_eq!(take_frame(&mut frame.as_slice()), Ok(raw));
        for length in 0..frame.len() {
            assert!(take_frame(&mut &frame[..length]).is_err(), "{length}");
        }
        for at in 4..frame.len() {
            let mut changed = frame.clone();
            changed[at] ^= 1;
            assert!(take_frame(&mut changed.as_slice()).is_err(), "{at}");
        }
    }
}
