//! `CINT.ADOPT`: turns the counters in a String or a Hash into a CountInt, at the same key.

use countint_core::countint::{CountInt, FIELD_BYTES, FIELD_MAX, Fields, MAX_LEN};
use countint_core::decimal;

use crate::error::Error;
use crate::server::{
    Arg, Call, Command, Key, KeySpec, KeyType, Keyspace, Outcome, Replicate, Spec,
};

/// `CINT.ADOPT key LEN n [WIDTH 4|5|8] [FORCE]` or `CINT.ADOPT key FIELDS name [name ...]`
pub struct Adopt;

impl Command for Adopt {
    const SPEC: Spec = Spec {
        name: c"cint.adopt",
        flags: c"write deny-oom",
        categories: c"countint write slow",
        arity: -4,
        keys: &[KeySpec::updates(1, false)],
        summary:
            c"Turns a String of packed counters, or a Hash of decimal ones, into an object in place",
        complexity: c"O(N) where N is the number of counters",
        since: c"0.1.0",
        args: &[
            Arg::key(c"key", 0),
            Arg::one_of(
                c"source",
                &[
                    Arg::block(
                        c"string",
                        &[
                            Arg::int(c"len").after(c"LEN"),
                            Arg::one_of(
                                c"width",
                                &[
                                    Arg::word(c"4", c"4"),
                                    Arg::word(c"5", c"5"),
                                    Arg::word(c"8", c"8"),
                                ],
                            )
                            .after(c"WIDTH")
                            .optional(),
                            Arg::word(c"force", c"FORCE").optional(),
                        ],
                    ),
                    Arg::text(c"name").after(c"FIELDS").multiple(),
                ],
            ),
        ],
    };

    fn run(call: &Call, keys: &mut Keyspace) -> Outcome {
        let source = Source::parse(call)?;
        let key = keys.write(1);
        if !matches!(key.fields(), Ok(Some(_))) {
            let counters = source.read(call, &key)?;
            let expiry = key.expiry();
            key.store_with_expiry(counters, expiry, Replicate::Verbatim)
                .publish(Self::SPEC.name);
        }
        call.reply_ok();
        Ok(())
    }
}

/// Where the counters come from.
enum Source {
    /// A String of big-endian fields, each `width` bytes wide, at most `len` of them.
    Packed {
        len: usize,
        width: usize,
        force: bool,
    },
    /// A Hash with the fields named by the arguments from 3 on, in the order of the new object.
    Hash,
}

impl Source {
    fn parse(call: &Call) -> Result<Self, Error> {
        if call.is(2, "FIELDS") {
            return Self::parse_names(call);
        }
        let (mut len, mut width, mut force) = (None, None, false);
        let mut at = 2;
        while at < call.len() {
            let more = at + 1 < call.len();
            if call.is(at, "LEN") && more && len.is_none() {
                len = Some(at + 1);
            } else if call.is(at, "WIDTH") && more && width.is_none() {
                width = Some(match call.arg(at + 1) {
                    b"4" => 4,
                    b"5" => 5,
                    b"8" => 8,
                    _ => return Err(Error::Syntax),
                });
            } else if call.is(at, "FORCE") && !force {
                force = true;
                at += 1;
                continue;
            } else {
                return Err(Error::Syntax);
            }
            at += 2;
        }
        let len = call.length(len.ok_or(Error::Syntax)?)?;
        Ok(Source::Packed {
            len,
            width: width.unwrap_or(FIELD_BYTES),
            force,
        })
    }

    fn parse_names(call: &Call) -> Result<Self, Error> {
        let mut names: Vec<&[u8]> = (3..call.len()).map(|i| call.arg(i)).collect();
        if names.len() > MAX_LEN {
            return Err(Error::Length);
        }
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            Err(Error::Syntax)
        } else {
            Ok(Source::Hash)
        }
    }

    /// The new object, read from the key.
    fn read(&self, call: &Call, key: &Key) -> Result<CountInt, Error> {
        match (self, key.key_type()) {
            (_, KeyType::Missing) => Err(Error::NoSuchKey),
            (&Source::Packed { len, width, force }, KeyType::String) => {
                if key.element_count() > len * width {
                    return Err(Error::Payload); // checked before the String is copied
                }
                key.string(|bytes| from_packed(bytes, len, width, force))
            }
            (Source::Hash, KeyType::Hash) => from_hash(call, key),
            _ => Err(Error::WrongType),
        }
    }
}

fn from_packed(bytes: &[u8], len: usize, width: usize, force: bool) -> Result<CountInt, Error> {
    if !bytes.len().is_multiple_of(width) || (!force && reads_as_integer(bytes)) {
        return Err(Error::Payload);
    }
    let mut counters = CountInt::new(len)?;
    for (idx, field) in bytes.chunks_exact(width).enumerate() {
        let value = field
            .iter()
            .fold(0, |value, &byte| value << 8 | u64::from(byte));
        store(counters.fields_mut(), idx, value)?;
    }
    Ok(counters)
}

/// Whether the bytes are a decimal integer, as written by INCR. Five digits could also be one packed counter.
fn reads_as_integer(bytes: &[u8]) -> bool {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

fn from_hash(call: &Call, key: &Key) -> Result<CountInt, Error> {
    // A single counter cannot have a TTL, and the append-only file may be replayed after the field has expired.
    if key.any_field_expires(call, 3) {
        return Err(Error::Payload);
    }
    let mut counters = CountInt::new(call.len() - 3)?;
    let mut found = 0;
    for i in 3..call.len() {
        if let Some(value) = key.hash_field(call, i, decimal::parse_u64) {
            store(counters.fields_mut(), i - 3, value.ok_or(Error::Payload)?)?;
            found += 1;
        }
    }
    // A field that was not named would be lost.
    if found == key.element_count() {
        Ok(counters)
    } else {
        Err(Error::Payload)
    }
}

fn store(fields: &mut Fields, idx: usize, value: u64) -> Result<(), Error> {
    if value > FIELD_MAX {
        return Err(Error::Payload);
    }
    fields.set(idx, value)?;
    Ok(())
}
