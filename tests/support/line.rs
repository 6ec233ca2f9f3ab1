//! Parses command lines and quotes strings as redis-cli does.

/// Splits a line into arguments at blanks. `"..."` supports the escapes `\n \r \t \b \a \\ \" \xHH`, `'...'` supports `\'`.
///
/// # Errors
/// For a quote that is not closed, or not followed by a blank.
pub fn split(line: &str) -> Result<Vec<Vec<u8>>, &'static str> {
    let mut rest = line.as_bytes();
    let mut args = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(args);
        }
        let (arg, after) = argument(rest)?;
        args.push(arg);
        rest = after;
    }
}

fn argument(mut rest: &[u8]) -> Result<(Vec<u8>, &[u8]), &'static str> {
    let mut arg = Vec::new();
    while let Some((&byte, after)) = rest.split_first() {
        rest = match byte {
            b'"' => return closed(double_quoted(after, &mut arg)?, arg),
            b'\'' => return closed(single_quoted(after, &mut arg)?, arg),
            byte if byte.is_ascii_whitespace() => break,
            byte => {
                arg.push(byte);
                after
            }
        };
    }
    Ok((arg, rest))
}

fn closed(rest: &[u8], arg: Vec<u8>) -> Result<(Vec<u8>, &[u8]), &'static str> {
    match rest.first() {
        Some(byte) if !byte.is_ascii_whitespace() => Err("a quote is followed by text"),
        _ => Ok((arg, rest)),
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], arg: &mut Vec<u8>) -> Result<&'a [u8], &'static str> {
    loop {
        rest = match rest {
            [b'"', after @ ..] => return Ok(after),
            [b'\\', b'x', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                arg.push((nibble(*high) << 4) | nibble(*low));
                after
            }
            [b'\\', escaped, after @ ..] => {
                arg.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                after
            }
            [byte, after @ ..] => {
                arg.push(*byte);
                after
            }
            [] => return Err("a double quote is not closed"),
        };
    }
}

fn nibble(digit: u8) -> u8 {
    (digit as char).to_digit(16).expect("a hexadecimal digit") as u8
}

fn single_quoted<'a>(mut rest: &'a [u8], arg: &mut Vec<u8>) -> Result<&'a [u8], &'static str> {
    loop {
        rest = match rest {
            [b'\\', b'\'', after @ ..] => {
                arg.push(b'\'');
                after
            }
            [b'\'', after @ ..] => return Ok(after),
            [byte, after @ ..] => {
                arg.push(*byte);
                after
            }
            [] => return Err("a single quote is not closed"),
        };
    }
}

/// `bytes` in double quotes, as redis-cli prints a bulk string. [`split`] parses it.
pub fn quote(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend(['\\', byte as char]),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            7 => out.push_str("\\a"),
            8 => out.push_str("\\b"),
            b' '..=b'~' => out.push(byte as char),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::{quote, split};

    #[test]
    fn lines_are_split_as_by_redis_cli() {
        let args = split(r#" SET  "a b\x00\xfF\n\"\q" 'c\'"\n' d"#).expect("valid quotes");
        assert_eq!(args[0], b"SET");
        assert_eq!(args[1], b"a b\x00\xff\n\"q");
        assert_eq!(args[2], b"c'\"\\n");
        assert_eq!(args[3], b"d");
        assert_eq!(split("").expect("empty"), Vec::<Vec<u8>>::new());
        assert_eq!(split("''").expect("an empty argument"), [b""]);
    }

    #[test]
    fn invalid_quotes_are_errors() {
        for line in ["\"a", "'a", "\"a\"b", "'a'b", "\"a\\"] {
            assert!(split(line).is_err(), "{line}");
        }
    }

    #[test]
    fn quoted_strings_are_parsed_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(split(&quote(&all)).expect("valid quotes"), [all]);
    }
}
