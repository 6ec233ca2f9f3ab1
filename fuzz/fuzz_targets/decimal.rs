//! The decimal parser accepts exactly the canonical form of integers.
#![no_main]

use countint_core::decimal::{parse_i64, parse_u64};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = std::str::from_utf8(bytes).ok();
    let canonical_i64 = text
        .and_then(|t| t.parse::<i64>().ok())
        .filter(|n| n.to_string().as_bytes() == bytes);
    let canonical_u64 = text
        .and_then(|t| t.parse::<u64>().ok())
        .filter(|n| n.to_string().as_bytes() == bytes);
    assert_eq!(parse_i64(bytes), canonical_i64);
    assert_eq!(parse_u64(bytes), canonical_u64);
    // Also covers large numbers, which the fuzzer rarely generates as text.
    if let Some(eight) = bytes.first_chunk::<8>() {
        let n = u64::from_le_bytes(*eight) >> (bytes.len() % 64);
        assert_eq!(parse_u64(n.to_string().as_bytes()), Some(n));
        assert_eq!(parse_i64((n as i64).to_string().as_bytes()), Some(n as i64));
    }
});
