//! Canonical decimal integers: exactly what `string2ll` of Redis accepts.
//!
//! A number has one spelling: no plus sign, no leading zero, no blank and no `-0`. [`str::parse`] is less strict: it accepts
//! `+7` and `007`.

/// A `u64` never overflows before its 20th digit, so the digits up to the 19th need no check.
const UNCHECKED_DIGITS: usize = 19;

/// Parses a canonical signed decimal, `-9223372036854775808 ..= 9223372036854775807`.
///
/// `None` for anything else, including `-0` and the empty string. O(length), reads at most 20 bytes.
#[inline]
pub fn parse_i64(b: &[u8]) -> Option<i64> {
    match b {
        // The fast path for indexes and increments, which mostly have one digit.
        [c @ b'0'..=b'9'] => Some(i64::from(c - b'0')),
        // 0 - magnitude also covers i64::MIN, whose magnitude is not an i64.
        [b'-', b'1'..=b'9', ..] => 0_i64.checked_sub_unsigned(parse_u64(&b[1..])?),
        _ => i64::try_from(parse_u64(b)?).ok(),
    }
}

/// Parses a canonical unsigned decimal, `0 ..= 18446744073709551615`.
///
/// `None` for anything else. O(length), reads at most 20 bytes.
#[inline]
pub fn parse_u64(b: &[u8]) -> Option<u64> {
    match b {
        [c @ b'0'..=b'9'] => Some(u64::from(c - b'0')),
        [b'1'..=b'9', ..] => match b.split_at_checked(UNCHECKED_DIGITS) {
            None | Some((_, [])) => digits(b),
            Some((head, &[last])) => digits(head)?.checked_mul(10)?.checked_add(digit(last)?),
            Some(_) => None,
        },
        _ => None,
    }
}

/// The value of up to [`UNCHECKED_DIGITS`] digits.
#[inline]
fn digits(b: &[u8]) -> Option<u64> {
    let (eights, rest) = b.as_chunks();
    let head = eights
        .iter()
        .try_fold(0, |n, &eight| Some(n * 100_000_000 + eight_digits(eight)?))?;
    rest.iter().try_fold(head, |n, &c| Some(n * 10 + digit(c)?))
}

#[inline]
fn digit(c: u8) -> Option<u64> {
    c.is_ascii_digit().then(|| u64::from(c - b'0'))
}

/// Parses eight digits in one register (SWAR). Ids are long, and a loop over digits would be most of the cost of parsing.
#[inline]
fn eight_digits(b: [u8; 8]) -> Option<u64> {
    const HIGH_HALVES: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    const ASCII_ZEROS: u64 = 0x3030_3030_3030_3030;
    // The first digit is in the lowest byte.
    let text = u64::from_le_bytes(b);
    // A byte is in 0x30 ..= 0x39 if its upper half is 3, and is still 3 after adding 6.
    if text & HIGH_HALVES != ASCII_ZEROS
        || (text + 0x0606_0606_0606_0606) & HIGH_HALVES != ASCII_ZEROS
    {
        return None;
    }
    // Pairs are combined: two digits in two bytes, then four in four, then eight.
    let ones = text - ASCII_ZEROS;
    let twos = (ones * 10 + (ones >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (twos * 100 + (twos >> 16)) & 0x0000_ffff_0000_ffff;
    Some((fours * 10_000 + (fours >> 32)) & 0xffff_ffff)
}
