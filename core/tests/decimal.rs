//! Canonical decimals against a reference: what std parses, spelled the way std spells it.

use std::fmt::Display;
use std::str::FromStr;

use countint_core::decimal::{parse_i64, parse_u64};
use proptest::prelude::*;

/// The number if `b` is the one spelling of it. std takes `+7`, `007` and `-0`, and spells them otherwise.
fn reference<T: FromStr + Display>(b: &[u8]) -> Option<T> {
    let text = std::str::from_utf8(b).ok()?;
    let number: T = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn agrees(b: &[u8]) {
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
fn malformed() {
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
fn bounds() {
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
    // What wraps to something small when nobody looks.
    assert_eq!(parse_u64(b"36893488147419103233"), None);
    assert_eq!(parse_u64(b"184467440737095516161"), None);
    assert_eq!(parse_i64(&[b'1'; 1000]), None);
}

#[test]
fn around_every_power() {
    let powers = (0..64)
        .map(|bit| 1_u128 << bit)
        .chain((0..22).map(|digit| 10_u128.pow(digit)));
    for power in powers.chain([1 << 64, 1 << 65]) {
        for number in power.saturating_sub(2)..=power + 2 {
            agrees(number.to_string().as_bytes());
            agrees(format!("-{number}").as_bytes());
            agrees(format!("0{number}").as_bytes());
            agrees(format!("+{number}").as_bytes());
            agrees(format!("{number} ").as_bytes());
        }
    }
}

#[test]
fn every_string_of_two_bytes() {
    for pair in 0..=u16::MAX {
        let [a, b] = pair.to_be_bytes();
        agrees(&[a, b]);
        agrees(&[b'1', a, b]);
        agrees(&[b'-', a, b]);
    }
}

/// A wrong byte is found wherever it stands, the 20th digit included.
#[test]
fn any_byte_at_any_place() {
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
                agrees(&bytes);
            }
        }
    }
}

proptest! {
    #[test]
    fn numbers_come_back(signed: i64, unsigned: u64) {
        prop_assert_eq!(parse_i64(signed.to_string().as_bytes()), Some(signed));
        prop_assert_eq!(parse_u64(unsigned.to_string().as_bytes()), Some(unsigned));
        agrees(signed.to_string().as_bytes());
        agrees(unsigned.to_string().as_bytes());
    }

    #[test]
    fn near_misses(text in "[-+ ]?[0-9]{1,22}[ a0]?") {
        agrees(text.as_bytes());
    }

    #[test]
    fn anything(bytes: Vec<u8>) {
        agrees(&bytes);
    }
}
