//! Packed arrays: integers of a fixed number of bits, in words of 64 bits.
//!
//! An array begins at any bit, and element `i` begins `i * width` bits later, lowest bit first. A width is 0 ..= 57 or 64, so
//! that the eight bytes that end with an element contain all of it. Elements are read that way, so at least one word must
//! precede the first element.

/// The smallest width for `x`.
#[inline]
pub(super) fn width_of(x: u64) -> usize {
    match 64 - x.leading_zeros() as usize {
        58.. => 64,
        bits => bits,
    }
}

/// The largest number of a width.
#[inline]
pub(super) fn max_of(width: usize) -> u64 {
    if width == 64 {
        u64::MAX
    } else {
        (1 << width) - 1
    }
}

/// The element of `width` bits that ends before bit `end`, which is beyond the first eight bytes.
#[inline]
pub(super) fn read(bytes: &[u8], end: usize, width: usize) -> u64 {
    // Loads the eight bytes that end with the element's last byte, and shifts out the bits below the element.
    let last = (end + 7) >> 3;
    let Some(from) = last.checked_sub(8) else {
        return 0;
    };
    match bytes[from..].first_chunk() {
        Some(eight) => {
            let below = (end - width).wrapping_sub(from * 8);
            u64::from_le_bytes(*eight).wrapping_shr(below as u32) & max_of(width)
        }
        None => 0,
    }
}

/// Writes the element that begins at bit `at`.
#[inline]
pub(super) fn write(words: &mut [u64], at: usize, width: usize, value: u64) {
    let (word, shift) = (at / 64, at % 64);
    let mask = max_of(width);
    words[word] = words[word] & !(mask << shift) | value << shift;
    if shift + width > 64 {
        let high = 64 - shift;
        words[word + 1] = words[word + 1] & !(mask >> high) | value >> high;
    }
}

/// Inserts space for an element at `at`: moves the bits `at..end` up by `width`, which is not 0.
#[inline]
pub(super) fn insert_gap(words: &mut [u64], at: usize, end: usize, width: usize) {
    let (first, last) = (at / 64, (end + width - 1) / 64);
    if width == 64 {
        words.copy_within(first..last, first + 1);
        return;
    }
    let words = &mut words[first..=last];
    let below = words[0] & ((1 << (at % 64)) - 1);
    for i in (1..words.len()).rev() {
        words[i] = words[i] << width | words[i - 1] >> (64 - width);
    }
    words[0] = words[0] << width & !((1 << (at % 64)) - 1) | below;
}

/// Removes the element at `at`: moves the bits above it, up to `end`, down by `width`, which is not 0.
#[inline]
pub(super) fn remove_gap(words: &mut [u64], at: usize, end: usize, width: usize) {
    let (first, last) = (at / 64, (end - 1) / 64);
    if width == 64 {
        words.copy_within(first + 1..last + 1, first);
        return;
    }
    let words = &mut words[first..=last];
    let (mask, below) = ((1 << (at % 64)) - 1, words[0] & ((1 << (at % 64)) - 1));
    for i in 1..words.len() {
        words[i - 1] = words[i - 1] >> width | words[i] << (64 - width);
    }
    words[last - first] >>= width;
    words[0] = words[0] & !mask | below;
}
