//! Canonical decimals against a reference: the strings that std parses and prints identically.

use std::fmt::Display;
use std::str::FromStr;

use countint_core::decimal::{parse_i64, parse_u64};
use proptest::prelude::*;

/// The number, if `b` is its canonical spelling. std accepts `+7`, `007` and `-0`, but prints them differently.
fn reference<T: FromStr + Display>(b: &[u8]) -> Option<T> {
    let text = std::str::from_utf8(b).ok()?;
    let number: T = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn assert_agrees(b: &[u8]) {
    assert_eq!(
        parse_i64(b),
        reference(b),
        "{:?}",
        String::from_utf8_lossy(b)
    );
    assert_eq!(
        parse_u64(b),
        reference(b),
        "{:?}",
        String::from_utf8_lossy(b)
    );
}

#[test]
fn malformed_numbers_are_none() {
    let forms = [
        "", "-", "+", "--", "-+", "--1", "-+1", "+-1", "+0", "+1", "-0", "-00", "-01", "00", "01",
        "007", " ", " 1", "1 ", "1 2", "\t1", "1\n", "\n", "\r\n", "1\0", "\x001", "\0", "0 ",
        " 0", "0x10", "0b1", "0o7", "1e3", "1.0", "1.", ".1", "1,000", "1_000", "１", "١", "nan",
        "inf", "infinity", "true", "abc", "1a", "a1", "12a34", "-a", "1-", "1-1", "0-1", "(1", "/",
        ":", "1/", "1:", "-/", "-:", "/1", ":1",
    ];
    for form in forms {
        assert_eq!(parse_i64(form.as_bytes()), None, "{form:?}");
        assert_eq!(parse_u64(form.as_bytes()), None, "{form:?}");
    }
    assert_eq!(parse_u64(b"\xff"), None);
    assert_eq!(parse_i64(b"-\xff1"), None);
}

#[test]
fn bounds_of_both_types_are_exact() {
    assert_eq!(parse_i64(b"9223372036854775807"), Some(i64::MAX));
    assert_eq!(parse_i64(b"9223372036854775808"), None);
    assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
    assert_eq!(parse_i64(b"-9223372036854775809"), None);
    assert_eq!(parse_i64(b"18446744073709551615"), None);
    assert_eq!(parse_i64(b"-18446744073709551615"), None);
    assert_eq!(parse_i64(b"-18446744073709551616"), None);
    assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
    assert_eq!(parse_u64(b"18446744073709551616"), None);
    assert_eq!(parse_u64(b"18446744073709551625"), None);
    assert_eq!(parse_u64(b"99999999999999999999"), None);
    assert_eq!(parse_u64(b"-1"), None);
    // Numbers that would wrap to small ones without overflow checks.
    assert_eq!(parse_u64(b"36893488147419103233"), None);
    assert_eq!(parse_u64(b"184467440737095516161"), None);
    assert_eq!(parse_i64(&[b'1'; 1000]), None);
}

#[test]
fn numbers_around_powers_agree() {
    let powers = (0..64)
        .map(|bit| 1_u128 << bit)
        .chain((0..22).map(|digit| 10_u128.pow(digit)));
    for power in powers.chain([1 << 64, 1 << 65]) {
        for number in power.saturating_sub(2)..=power + 2 {
            assert_agrees(number.to_string().as_bytes());
            assert_agrees(format!("-{number}").as_bytes());
            assert_agrees(format!("0{number}").as_bytes());
            assert_agrees(format!("+{number}").as_bytes());
            assert_agrees(format!("{number} ").as_bytes());
        }
    }
}

#[test]
fn all_strings_of_two_bytes_agree() {
    for pair in 0..=u16::MAX {
        let [a, b] = pair.to_be_bytes();
        assert_agrees(&[a, b]);
        assert_agrees(&[b'1', a, b]);
        assert_agrees(&[b'-', a, b]);
    }
}

/// Includes the 20th digit.
#[test]
fn any_byte_at_any_position_agrees() {
    for good in [
        "12345678901234567890",
        "-9223372036854775808",
        "1234567890123456789",
        "7",
    ] {
        for at in 0..good.len() {
            for byte in 0..=u8::MAX {
                let mut bytes = good.as_bytes().to_vec();
                bytes[at] = byte;
                assert_agrees(&bytes);
            }
        }
    }
}

proptest! {
    #[test]
    fn numbers_round_trip(signed: i64, unsigned: u64) {
        prop_assert_eq!(parse_i64(signed.to_string().as_bytes()), Some(signed));
        prop_assert_eq!(parse_u64(unsigned.to_string().as_bytes()), Some(unsigned));
        assert_agrees(signed.to_string().as_bytes());
        assert_agrees(unsigned.to_string().as_bytes());
    }

    #[test]
    fn near_misses_agree(text in "[-+ ]?[0-9]{1,22}[ a0]?") {
        assert_agrees(text.as_bytes());
    }

    #[test]
    fn any_bytes_agree(bytes: Vec<u8>) {
        assert_agrees(&bytes);
    }
}
