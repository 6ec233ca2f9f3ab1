//! The settings of the module: their values and the arguments of `loadmodule`.

use std::ffi::CStr;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use countint_core::countint::MAX_LEN;
use countint_core::decimal;

/// The name of the setting `countint.default-len`, without the module's prefix.
pub const DEFAULT_LEN: &CStr = c"default-len";

/// The length of objects and rows that are created without `LEN`.
static LEN: AtomicI64 = AtomicI64::new(5);

/// The length of objects and rows that are created without `LEN`; None if the setting is 0, which disables it.
pub fn default_len() -> Option<usize> {
    match LEN.load(Relaxed) {
        len @ 1.. => Some(len as usize),
        _ => None,
    }
}

/// The value of the setting `default-len`, 0 to [`MAX_LEN`].
pub fn default_len_value() -> &'static AtomicI64 {
    &LEN
}

/// Parses the arguments of `loadmodule`, `default-len n`, and returns the default of the setting. The prefix
/// `countint.` is optional, and the last argument wins. The error is a message for the server's log.
pub fn parse_args(args: &[&[u8]]) -> Result<i64, &'static str> {
    const USAGE: &str = "countint: module arguments are: default-len <0..65535>";
    let mut len = LEN.load(Relaxed);
    let mut pairs = args.chunks_exact(2);
    for pair in &mut pairs {
        let name = pair[0].to_ascii_lowercase();
        if name.strip_prefix(b"countint.").unwrap_or(&name) != DEFAULT_LEN.to_bytes() {
            return Err(USAGE);
        }
        len = decimal::parse_i64(pair[1])
            .filter(|n| (0..=MAX_LEN as i64).contains(n))
            .ok_or(USAGE)?;
    }
    if pairs.remainder().is_empty() {
        Ok(len)
    } else {
        Err(USAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_set_the_default_length() {
        assert_eq!(parse_args(&[]), Ok(5));
        assert_eq!(parse_args(&[b"default-len", b"0"]), Ok(0));
        assert_eq!(
            parse_args(&[b"Countint.Default-Len", b"7", b"default-len", b"9"]),
            Ok(9)
        );
    }

    #[test]
    fn invalid_arguments_are_refused() {
        for args in [
            &[b"default-len".as_slice()][..],
            &[b"default-len", b"65536"],
            &[b"default-len", b"+1"],
            &[b"len", b"1"],
            &[b"default-len", b"1", b"x"],
        ] {
            assert!(parse_args(args).is_err(), "{args:?}");
        }
    }
}
