//! The decoder of chunks of the event archive. The input is the bytes of a chunk, or the content of its frames. The target compresses the
//! latter and adds the checksums, so that mutations reach ranges and records.
#![no_main]

use arbitrary::Arbitrary;
use countd::log::archive::Chunk;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    /// The content of the frames: the ranges of offsets, and records.
    Frames(Vec<&'a [u8]>),
    /// The bytes of a segment.
    Bytes(&'a [u8]),
}

/// A frame: the length of its compressed bytes and their checksum, and these bytes.
fn frame(content: &[u8]) -> Vec<u8> {
    let compressed = zstd::bulk::compress(content, 1).expect("it can be compressed");
    let length = u32::try_from(compressed.len()).expect("inputs are short");
    let mut frame = length.to_le_bytes().to_vec();
    frame.extend(crc32c::crc32c(&compressed).to_le_bytes());
    frame.extend(compressed);
    frame
}

fuzz_target!(|input: Input| {
    let bytes = match input {
        Input::Frames(frames) => frames.into_iter().flat_map(frame).collect(),
        Input::Bytes(bytes) => bytes.to_vec(),
    };
    let Ok(chunk) = Chunk::decode(&bytes) else {
        return;
    };
    let encoded = chunk.encode(1).expect("it can be compressed");
    let decoded = Chunk::decode(&encoded).expect("an encoded chunk is valid");
    assert_eq!(decoded.ranges, chunk.ranges);
    assert_eq!(decoded.records, chunk.records);
});
