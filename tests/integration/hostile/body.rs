//! The positions of lengths, opcodes and numbers in a module value's body, and their alternative encodings.

use std::ops::Range;

/// The meaning of a length-encoded number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The type's name and encoding version.
    Id,
    /// An opcode: 0 the end, 1 a signed and 2 an unsigned number, 3 a float, 4 a double, 5 a string.
    Opcode,
    /// An unsigned number that the module saved.
    Number,
    /// The length of a string.
    StringLength,
    /// The compressed length of a compressed string.
    Compressed,
    /// The expanded length of a compressed string.
    Expanded,
}

/// A length-encoded number.
#[derive(Clone, Debug)]
pub struct Number {
    pub at: Range<usize>,
    pub value: u64,
    pub role: Role,
}

/// A string that the module saved, with its length prefix.
#[derive(Clone, Debug)]
pub struct Text {
    pub whole: Range<usize>,
    /// Its bytes, without the prefix.
    pub bytes: Range<usize>,
}

/// All numbers and all strings of a well-formed body (after its first byte, the type).
#[derive(Default)]
pub struct Parts {
    pub numbers: Vec<Number>,
    /// The uncompressed strings.
    pub texts: Vec<Text>,
}

impl Parts {
    /// Parses a body.
    ///
    /// # Panics
    /// When it is not well formed: bodies come from the server or from this test.
    pub fn of(body: &[u8]) -> Parts {
        let mut parts = Parts::default();
        let mut at = 1;
        parts.number(body, &mut at, Role::Id);
        loop {
            match parts.number(body, &mut at, Role::Opcode) {
                0 => break,
                2 => {
                    parts.number(body, &mut at, Role::Number);
                }
                5 => parts.text(body, &mut at),
                other => panic!("unknown opcode {other}"),
            }
        }
        assert_eq!(at, body.len(), "a body ends with its last opcode");
        parts
    }

    fn number(&mut self, body: &[u8], at: &mut usize, role: Role) -> u64 {
        let start = *at;
        let (value, width) = match body[start] {
            first @ 0..0x40 => (u64::from(first), 1),
            first @ 0x40..0x80 => (u64::from(first & 0x3f) << 8 | u64::from(body[start + 1]), 2),
            0x80 => (big_endian(&body[start + 1..start + 5]), 5),
            0x81 => (big_endian(&body[start + 1..start + 9]), 9),
            other => panic!("length byte {other:#x}"),
        };
        *at += width;
        self.numbers.push(Number {
            at: start..*at,
            value,
            role,
        });
        value
    }

    fn text(&mut self, body: &[u8], at: &mut usize) {
        let start = *at;
        if body[start] == LZF {
            *at += 1;
            let compressed = self.number(body, at, Role::Compressed);
            self.number(body, at, Role::Expanded);
            *at += compressed as usize;
            return;
        }
        // The server encodes a short string of digits as a number.
        if let 0xc0..=0xc2 = body[start] {
            *at += 1 + (1 << (body[start] - 0xc0));
            return;
        }
        let len = self.number(body, at, Role::StringLength) as usize;
        self.texts.push(Text {
            whole: start..*at + len,
            bytes: *at..*at + len,
        });
        *at += len;
    }
}

const LZF: u8 = 0xc3;

fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, &byte| n << 8 | u64::from(byte))
}

/// All encodings of `value` as a length, the shortest first.
pub fn encodings(value: u64) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    if value < 1 << 6 {
        all.push(vec![value as u8]);
    }
    if value < 1 << 14 {
        all.push((value as u16 | 0x4000).to_be_bytes().to_vec());
    }
    if let Ok(value) = u32::try_from(value) {
        all.push([&[0x80][..], &value.to_be_bytes()].concat());
    }
    all.push([&[0x81][..], &value.to_be_bytes()].concat());
    all
}

/// A compressed string with these two stated lengths and these bytes.
pub fn compressed(stated: u64, expanded: u64, bytes: &[u8]) -> Vec<u8> {
    [
        &[LZF][..],
        &encodings(stated)[0],
        &encodings(expanded)[0],
        bytes,
    ]
    .concat()
}

/// LZF that compresses nothing: runs of up to 32 literal bytes.
pub fn lzf_literals(bytes: &[u8]) -> Vec<u8> {
    bytes
        .chunks(32)
        .flat_map(|chunk| [&[chunk.len() as u8 - 1][..], chunk].concat())
        .collect()
}

/// `bytes` with the range `at` replaced.
pub fn replaced(bytes: &[u8], at: &Range<usize>, with: &[u8]) -> Vec<u8> {
    [&bytes[..at.start], with, &bytes[at.end..]].concat()
}
