//! The hash of Kafka's default partitioner. An entity is in the same partition in a log on Redis and in one on Kafka.

/// The seed in Kafka's `Utils.murmur2`.
const SEED: u32 = 0x9747_b28c;
const M: u32 = 0x5bd1_e995;
const R: u32 = 24;

/// MurmurHash2 of Austin Appleby, as in Kafka's `org.apache.kafka.common.utils.Utils.murmur2`.
pub(super) fn murmur2(bytes: &[u8]) -> u32 {
    let mut hash = SEED ^ bytes.len() as u32;
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        let mut word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        word ^= word >> R;
        hash = hash.wrapping_mul(M) ^ word.wrapping_mul(M);
    }
    let tail = words.remainder();
    if !tail.is_empty() {
        let value = tail
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | u32::from(*byte));
        hash = (hash ^ value).wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

/// The partition of a record with this key, as Kafka's default partitioner chooses it: the hash without its sign bit, modulo the
/// number of partitions.
pub(super) fn partition(key: &[u8], partitions: u16) -> u16 {
    let hash = (murmur2(key) & 0x7fff_ffff) % u32::from(partitions);
    hash as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_equals_that_of_kafka() {
        // From Kafka's own UtilsTest.testMurmur2.
        for (text, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(text.as_bytes()) as i32, hash, "{text}");
        }
        assert_eq!(murmur2(b""), 275_646_681);
    }
}
