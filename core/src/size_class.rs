//! The size classes of jemalloc, the allocator of Redis servers. An allocation of exactly a class wastes nothing.

/// The smallest size class that holds `bytes`: 8, multiples of 16 up to 128, then four classes for each doubling.
#[inline]
pub fn size_class(bytes: usize) -> usize {
    match bytes {
        0..=8 => 8,
        9..=128 => bytes.next_multiple_of(16),
        _ => bytes.next_multiple_of(1 << ((bytes - 1).ilog2() - 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::size_class;

    #[test]
    fn size_classes_are_those_of_jemalloc() {
        for (bytes, size) in [
            (1, 8),
            (8, 8),
            (9, 16),
            (16, 16),
            (17, 32),
            (112, 112),
            (128, 128),
            (129, 160),
            (160, 160),
            (161, 192),
            (256, 256),
            (257, 320),
            (512, 512),
            (513, 640),
            (1024, 1024),
            (1025, 1280),
            (1281, 1536),
            (1793, 2048),
            (2049, 2560),
            (3000, 3072),
            (4097, 5120),
            (327_680, 327_680),
        ] {
            assert_eq!(size_class(bytes), size, "{bytes}");
        }
    }
}
