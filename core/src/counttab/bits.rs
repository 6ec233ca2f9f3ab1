//! Numbers of 0 to 64 bits anywhere in a slice of bytes, the lowest bit first.
//!
//! A number of up to [`WORD`] bits fits one unaligned little-endian word of 8 bytes, at any bit offset. At the end of
//! the slice a word consists of the remaining bytes.

use super::cost;

/// The maximum width of a number that fits a word at any bit offset.
const WORD: u32 = 57;

/// The 8 bytes from `at` on as a little-endian number; bytes beyond the end read as 0.
#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        Some(whole) => u64::from_le_bytes(*whole),
        None => tail(bytes, at),
    }
}

#[cold]
fn tail(bytes: &[u8], at: usize) -> u64 {
    let mut whole = [0; 8];
    if let Some(rest) = bytes.get(at..) {
        whole[..rest.len()].copy_from_slice(rest);
    }
    u64::from_le_bytes(whole)
}

#[inline]
fn set_word(bytes: &mut [u8], at: usize, value: u64) {
    let value = value.to_le_bytes();
    let rest = &mut bytes[at..];
    match rest.first_chunk_mut::<8>() {
        Some(whole) => *whole = value,
        None => rest.copy_from_slice(&value[..rest.len()]),
    }
}

/// A mask of `width` ones, at most 63.
#[inline]
fn mask(width: u32) -> u64 {
    (1 << width) - 1
}

/// A mask of `width` ones, 0 ..= 64.
pub fn ones(width: u32) -> u64 {
    1u64.checked_shl(width).map_or(u64::MAX, |bit| bit - 1)
}

/// The number of `width` bits, 0 ..= 64, that begins at `bit`.
#[inline]
pub fn load(bytes: &[u8], bit: usize, width: u32) -> u64 {
    cost::step();
    if width > WORD {
        return load_halves(bytes, bit, width);
    }
    word(bytes, bit / 8) >> (bit % 8) & mask(width)
}

/// [`load`] for widths above [`WORD`]. Such widths are rare, so this is not inlined into the fast path.
#[cold]
fn load_halves(bytes: &[u8], bit: usize, width: u32) -> u64 {
    load(bytes, bit, 32) | load(bytes, bit + 32, width - 32) << 32
}

/// Stores a number of `width` bits, 0 ..= 64, at `bit`. All other bits keep their values.
#[inline]
pub fn store(bytes: &mut [u8], bit: usize, width: u32, value: u64) {
    cost::step();
    if width > WORD {
        store_halves(bytes, bit, width, value);
    } else if width > 0 {
        let (at, shift) = (bit / 8, bit % 8);
        let rest = word(bytes, at) & !(mask(width) << shift);
        set_word(bytes, at, rest | value << shift);
    }
}

#[cold]
fn store_halves(bytes: &mut [u8], bit: usize, width: u32, value: u64) {
    store(bytes, bit, 32, value & mask(32));
    store(bytes, bit + 32, width - 32, value >> 32);
}

/// Copies `len` bits, in words; in bytes where both sides begin at a byte.
#[inline]
pub fn copy(from: &[u8], mut bit: usize, to: &mut [u8], mut to_bit: usize, mut len: usize) {
    const STEP: usize = 56;
    if bit.is_multiple_of(8) && to_bit.is_multiple_of(8) && len > STEP {
        let (at, to_at, whole) = (bit / 8, to_bit / 8, len / 8);
        to[to_at..to_at + whole].copy_from_slice(&from[at..at + whole]);
        (bit, to_bit, len) = (bit + whole * 8, to_bit + whole * 8, len % 8);
    }
    while len > 0 {
        let step = len.min(STEP);
        let part = load(from, bit, step as u32);
        store(to, to_bit, step as u32, part);
        (bit, to_bit, len) = (bit + step, to_bit + step, len - step);
    }
}

/// The first set bit in `bit..end`.
fn next_set(bytes: &[u8], bit: usize, end: usize) -> Option<usize> {
    if bit >= end {
        return None;
    }
    let mut at = bit / 8;
    let mut set = word(bytes, at) >> (bit % 8) << (bit % 8);
    loop {
        cost::step();
        if set != 0 {
            let found = at * 8 + set.trailing_zeros() as usize;
            return (found < end).then_some(found);
        }
        at += 8;
        if at * 8 >= end {
            return None;
        }
        set = word(bytes, at);
    }
}

/// The positions and values of the numbers that are not 0, of `count` numbers of `width` bits that begin at `bit`. Zeros
/// are skipped a word at a time.
#[inline]
pub fn nonzero(
    bytes: &[u8],
    bit: usize,
    width: u32,
    count: usize,
) -> impl Iterator<Item = (usize, u64)> {
    let stride = width as usize;
    let end = bit + count * stride;
    let mut next = 0;
    std::iter::from_fn(move || {
        while next < count {
            let (at, i) = (bit + next * stride, next);
            let value = load(bytes, at, width);
            if value > 0 {
                next += 1;
                return Some((i, value));
            }
            // A bit is set only if the width is not 0, so there is no division by 0.
            next = next_set(bytes, at + stride, end).map_or(count, |set| (set - bit) / stride);
        }
        None
    })
}

/// The number of bits that `value` needs: 0 for 0.
#[inline]
pub fn width_of(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_of_every_width_at_every_bit_keeps_all_other_bits() {
        for width in 0..=64u32 {
            let value = 0xa5c3_96f0_5a3c_690f & if width == 64 { u64::MAX } else { mask(width) };
            for bit in 0..24 {
                for background in [0, 0xff] {
                    // The shortest slice that holds the number.
                    let mut bytes = vec![background; (bit + width as usize).div_ceil(8).max(1)];
                    store(&mut bytes, bit, width, value);
                    assert_eq!(load(&bytes, bit, width), value, "{width} bits at {bit}");
                    let ones = mask(1) * u64::from(background & 1);
                    for other in
                        (0..bytes.len() * 8).filter(|b| !(bit..bit + width as usize).contains(b))
                    {
                        assert_eq!(
                            load(&bytes, other, 1),
                            ones,
                            "bit {other} beside {width} at {bit}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn nonzero_yields_every_number_that_is_not_0() {
        for width in 0..=40u32 {
            for (bit, count) in [(0, 0), (0, 1), (3, 5), (9, 64), (7, 300), (64, 129)] {
                let stride = width as usize;
                // The bits around the numbers are ones, and the slice has no spare byte.
                let mut bytes = vec![0xff; (bit + count * stride + 1).div_ceil(8)];
                (0..count).for_each(|i| store(&mut bytes, bit + i * stride, width, 0));
                assert_eq!(nonzero(&bytes, bit, width, count).next(), None);
                let values = (0..count)
                    .step_by(count / 4 + 1)
                    .chain(count.checked_sub(1));
                let mut expected: Vec<(usize, u64)> =
                    values.map(|i| (i, (1 + i as u64) & mask(width))).collect();
                expected.dedup();
                for &(i, value) in &expected {
                    store(&mut bytes, bit + i * stride, width, value);
                }
                expected.retain(|&(_, value)| value > 0);
                let found: Vec<_> = nonzero(&bytes, bit, width, count).collect();
                assert_eq!(found, expected, "{count} of {width} bits at {bit}");
            }
        }
    }

    #[test]
    fn copy_moves_any_run_of_bits_and_nothing_else() {
        let from: Vec<u8> = (0..40u8).map(|i| i.wrapping_mul(37) ^ 0x5b).collect();
        for (bit, to_bit, len) in [
            (0, 0, 320),
            (3, 0, 300),
            (0, 5, 310),
            (8, 16, 129),
            (7, 7, 57),
            (1, 2, 0),
        ] {
            let mut to = vec![0; 41];
            copy(&from, bit, &mut to, to_bit, len);
            for i in 0..len {
                assert_eq!(
                    load(&to, to_bit + i, 1),
                    load(&from, bit + i, 1),
                    "bit {i} of {len}"
                );
            }
            let ones: u32 = to.iter().map(|byte| byte.count_ones()).sum();
            let copied: u64 = (0..len).map(|i| load(&from, bit + i, 1)).sum();
            assert_eq!(u64::from(ones), copied, "bits outside the run");
        }
    }
}
