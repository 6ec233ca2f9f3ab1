//! Parses and forges `DUMP` payloads: a type byte and a body, the RDB version (two bytes, little-endian), and a CRC-64
//! (Jones, little-endian) of everything before it.

const TABLE: [u64; 256] = {
    // The Jones polynomial 0xad93d23594c935a9, bit-reversed.
    const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ POLYNOMIAL
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

/// The checksum at the end of payloads and RDB files.
pub fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, &byte| {
        TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8)
    })
}

/// A payload without its footer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The type byte and the body.
    pub body: Vec<u8>,
    /// The RDB version of the server that wrote it.
    pub rdb_version: u16,
}

impl Payload {
    /// Parses the reply of `DUMP`.
    ///
    /// # Panics
    /// When it is too short or the checksum is wrong.
    pub fn parse(dump: &[u8]) -> Payload {
        let (rest, crc) = dump
            .split_last_chunk::<8>()
            .expect("a payload ends with a checksum");
        assert_eq!(
            crc64(rest),
            u64::from_le_bytes(*crc),
            "the checksum of a payload"
        );
        let (body, version) = rest
            .split_last_chunk::<2>()
            .expect("a payload names its version");
        Payload {
            body: body.to_vec(),
            rdb_version: u16::from_le_bytes(*version),
        }
    }

    /// The payload for `RESTORE`, with a valid checksum.
    pub fn seal(&self) -> Vec<u8> {
        self.reseal(&self.body)
    }

    /// A payload of another body, with the same version and a valid checksum.
    pub fn reseal(&self, body: &[u8]) -> Vec<u8> {
        let mut out = body.to_vec();
        out.extend_from_slice(&self.rdb_version.to_le_bytes());
        out.extend_from_slice(&crc64(&out).to_le_bytes());
        out
    }
}

/// Builds the body of a module value, in the encoding of the module API.
///
/// ```
/// use countint_tests::payload::Body;
///
/// let two_fields = Body::module("CountInt5", 1).string(&[0, 0, 0, 0, 7, 0, 0, 0, 0, 9]).end();
/// # assert_eq!(two_fields[0], 7);
/// ```
#[derive(Clone, Debug)]
pub struct Body(Vec<u8>);

impl Body {
    /// The start of a value of the type `name` (nine characters) in the encoding `version` (0 ..= 1023).
    ///
    /// # Panics
    /// When the name or the version cannot be encoded.
    pub fn module(name: &str, version: u16) -> Body {
        // RDB_TYPE_MODULE_2, then the type's id: nine characters of six bits and ten bits of version.
        let mut body = Body(vec![7]);
        body.put_length(module_id(name, version));
        body
    }

    /// `RedisModule_SaveUnsigned`.
    pub fn unsigned(mut self, value: u64) -> Body {
        self.put_length(2);
        self.put_length(value);
        self
    }

    /// `RedisModule_SaveSigned`.
    pub fn signed(mut self, value: i64) -> Body {
        self.put_length(1);
        self.put_length(value as u64);
        self
    }

    /// `RedisModule_SaveStringBuffer`, never compressed.
    pub fn string(self, bytes: &[u8]) -> Body {
        self.string_of_length(bytes.len() as u64, bytes)
    }

    /// A string with a forged length.
    pub fn string_of_length(mut self, length: u64, bytes: &[u8]) -> Body {
        self.put_length(5);
        self.put_length(length);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Raw bytes.
    pub fn raw(mut self, bytes: &[u8]) -> Body {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Ends the value (`RDB_MODULE_OPCODE_EOF`) and returns the body.
    pub fn end(mut self) -> Vec<u8> {
        self.put_length(0);
        self.0
    }

    /// An RDB length: 6, 14, 32 or 64 bits.
    fn put_length(&mut self, value: u64) {
        if value < 1 << 6 {
            self.0.push(value as u8);
        } else if value < 1 << 14 {
            self.0
                .extend_from_slice(&(value as u16 | 0x4000).to_be_bytes());
        } else if let Ok(value) = u32::try_from(value) {
            self.0.push(0x80);
            self.0.extend_from_slice(&value.to_be_bytes());
        } else {
            self.0.push(0x81);
            self.0.extend_from_slice(&value.to_be_bytes());
        }
    }
}

/// The 64-bit id of a module type: its name and encoding version.
///
/// # Panics
/// When the name is not nine characters of `A-Za-z0-9-_`, or the version over 1023.
pub fn module_id(name: &str, version: u16) -> u64 {
    const CHARACTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    assert!(name.len() == 9 && version < 1024, "{name} {version}");
    let name = name.bytes().fold(0, |id, byte| {
        let digit = CHARACTERS.iter().position(|c| *c == byte);
        id << 6 | digit.expect("a character that type names may have") as u64
    });
    name << 10 | u64::from(version)
}

#[cfg(test)]
mod tests {
    use super::{Body, Payload, crc64};

    #[test]
    fn crc64_of_the_check_string() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn a_sealed_payload_parses() {
        let payload = Payload {
            body: b"\x00\x05hello".to_vec(),
            rdb_version: 10,
        };
        assert_eq!(Payload::parse(&payload.seal()), payload);
    }

    #[test]
    fn lengths_of_every_width() {
        let body = Body::module("CountInt5", 1)
            .unsigned(63)
            .unsigned(64)
            .unsigned(1 << 14)
            .unsigned(1 << 32);
        let pieces = [
            &[2, 63][..],
            &[2, 0x40, 64],
            &[2, 0x80, 0, 0, 0x40, 0],
            &[2, 0x81, 0, 0, 0, 1, 0, 0, 0, 0],
            &[0],
        ];
        // One type byte and a 64-bit id come first.
        assert_eq!(body.end()[10..], pieces.concat());
    }
}
