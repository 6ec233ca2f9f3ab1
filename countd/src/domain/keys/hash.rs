//! The key hash of Redis Cluster, which countd's partitions use too.

/// The number of hash slots of a cluster.
pub(super) const SLOTS: u16 = 16_384;

/// The hash slot of a key: the hash of its hash tag, or of the whole key if it has none.
pub(crate) fn slot(key: &[u8]) -> u16 {
    crc16(0, tag(key)) % SLOTS
}

/// The hash tag of a key, or the whole key if it has none.
pub(crate) fn tag(key: &[u8]) -> &[u8] {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    tag.unwrap_or(key)
}

/// CRC-16/XMODEM: polynomial 0x1021, no reflection. `crc` is 0, or the checksum of the bytes before.
pub(super) fn crc16(crc: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(crc, |crc, &byte| {
        (crc << 8) ^ CRC_TABLE[usize::from((crc >> 8) as u8 ^ byte)]
    })
}

const CRC_TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 {
                crc << 1
            } else {
                crc << 1 ^ 0x1021
            };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_equals_that_of_redis_cluster() {
        // The check value of CRC-16/XMODEM, as in the specification of Redis Cluster.
        assert_eq!(crc16(0, b"123456789"), 0x31c3);
        assert_eq!(crc16(crc16(0, b"1234"), b"56789"), 0x31c3);
        assert_eq!(slot(b"123456789"), 0x31c3);
        assert_eq!(slot(b"a{123456789}b{c}"), 0x31c3);
        assert_eq!(slot(b"{}a"), crc16(0, b"{}a") % SLOTS);
    }
}
