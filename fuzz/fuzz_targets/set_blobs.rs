//! The decoder of a set's RDB body. The input is a list of blobs, each after its length in two bytes.
#![no_main]

use countint_core::idset::{BlobLoader, IdSet, SetError};
use libfuzzer_sys::fuzz_target;

fn split(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut blobs = Vec::new();
    while let Some((len, tail)) = rest.split_first_chunk::<2>() {
        let (blob, tail) = tail.split_at(usize::from(u16::from_le_bytes(*len)).min(tail.len()));
        blobs.push(blob);
        rest = tail;
    }
    blobs
}

fn load(cardinality: u64, blobs: &[impl AsRef<[u8]>]) -> Result<IdSet, SetError> {
    let mut loader = BlobLoader::new(cardinality);
    for blob in blobs {
        loader.push(blob.as_ref())?;
    }
    loader.finish()
}

/// The cardinality of valid blobs, so that the loader does not stop at a wrong cardinality.
fn cardinality_of(blobs: &[&[u8]]) -> u64 {
    let count = |blob: &&[u8]| match blob.split_first() {
        Some((1, varints)) => varints.iter().filter(|&&byte| byte < 0x80).count() as u64,
        Some((2, bytes)) => IdSet::from_portable(bytes).map_or(0, |set| set.len()),
        _ => 0,
    };
    blobs.iter().map(count).sum()
}

fuzz_target!(|input: (Option<u64>, &[u8])| {
    let (claimed, bytes) = input;
    let blobs = split(bytes);
    let cardinality = claimed.unwrap_or_else(|| cardinality_of(&blobs));
    let Ok(set) = load(cardinality, &blobs) else {
        return;
    };
    set.validate().expect("a loaded set is valid");
    assert_eq!(set.len(), cardinality);
    let mut saved: Vec<Vec<u8>> = Vec::new();
    set.save_blobs(&mut |blob| saved.push(blob.to_vec()));
    assert_eq!(
        load(cardinality, &saved).expect("saved blobs are valid"),
        set
    );
    assert_eq!(
        IdSet::from_portable(&set.export()).expect("the export is valid"),
        set
    );
});
