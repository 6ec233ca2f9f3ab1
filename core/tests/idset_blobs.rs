//! The blobs of an RDB file: saved sets load again, blobs are bounded, and invalid blobs are errors.

mod idset_support;

use countint_core::idset::{BlobLoader, IdSet, SetError};
use idset_support::*;
use proptest::collection::vec;
use proptest::prelude::*;

fn blobs_of(set: &IdSet) -> Vec<Vec<u8>> {
    let mut blobs = Vec::new();
    set.save_blobs(&mut |blob| blobs.push(blob.to_vec()));
    blobs
}

fn load(cardinality: u64, blobs: &[impl AsRef<[u8]>]) -> Result<IdSet, SetError> {
    let mut loader = BlobLoader::new(cardinality);
    for blob in blobs {
        loader.push(blob.as_ref())?;
    }
    let set = loader.finish()?;
    set.validate().unwrap();
    assert_eq!(set.len(), cardinality);
    Ok(set)
}

fn assert_invalid(cardinality: u64, blobs: &[&[u8]]) {
    assert_eq!(
        load(cardinality, blobs).unwrap_err(),
        SetError::Payload,
        "{blobs:?}"
    );
}

/// Some members in the portable format.
fn portable(members: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let set: IdSet = members.into_iter().collect();
    [vec![2], set.export()].concat()
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn saved_sets_load_again((set, model) in sets()) {
        let blobs = blobs_of(&set);
        prop_assert!(blobs.iter().all(|blob| (2..=1 << 20).contains(&blob.len())));
        prop_assert_eq!(blobs.is_empty(), model.is_empty());
        if !model.is_empty() {
            assert_same(&load(set.len(), &blobs).unwrap(), &model);
            prop_assert_eq!(load(set.len() + 1, &blobs), Err(SetError::Payload));
            prop_assert_eq!(load(set.len() - 1, &blobs), Err(SetError::Payload));
        }
    }

    /// Blobs of any sizes and encodings.
    #[test]
    fn blobs_of_any_split_load((set, model) in sets(), cuts in vec((1usize..3_000, any::<bool>()), 1..20)) {
        prop_assume!(!model.is_empty());
        let members: Vec<u64> = model.iter().copied().collect();
        let (mut rest, mut blobs) = (&members[..], Vec::new());
        for (n, as_portable) in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, tail) = rest.split_at((*n).min(rest.len()));
            rest = tail;
            blobs.push(if *as_portable { portable(piece.to_vec()) } else { varints(piece) });
        }
        prop_assert_eq!(&load(set.len(), &blobs).unwrap(), &set);
        // Repeated blobs are not in ascending order.
        let twice = [&blobs[..], &blobs[..]].concat();
        prop_assert_eq!(load(2 * set.len(), &twice), Err(SetError::Payload));
    }

    #[test]
    fn random_blobs_never_panic(blobs in vec(vec(any::<u8>(), 0..60), 0..4), form in 1u8..3, cardinality in 0u64..100) {
        let blobs: Vec<Vec<u8>> = blobs.into_iter().map(|blob| [vec![form], blob].concat()).collect();
        let _ = load(cardinality, &blobs);
    }
}

fn varints(members: &[u64]) -> Vec<u8> {
    let (mut blob, mut next) = (vec![1], 0);
    for &m in members {
        let mut step = m - next;
        while step >= 128 {
            blob.push(step as u8 | 128);
            step >>= 7;
        }
        blob.push(step as u8);
        next = m.wrapping_add(1);
    }
    blob
}

#[test]
fn format_stays_loadable() {
    let set = load(3, &[[1, 5, 0, 0x80, 0x01]]).unwrap();
    assert_eq!(set.iter().collect::<Vec<_>>(), [5, 6, 135]);
    assert_eq!(blobs_of(&set), [[1, 5, 0, 0x80, 0x01]]);
    let portable = [
        2, 1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0x3a, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 16, 0, 0,
        0, 7, 0, 9, 0,
    ];
    let set = load(2, &[portable]).unwrap();
    assert_eq!(set.iter().collect::<Vec<_>>(), [3 << 32 | 7, 3 << 32 | 9]);
}

#[test]
fn blobs_are_at_most_a_megabyte() {
    let dense: IdSet = (0..3_000_000).map(|i| i * 5).collect();
    let sparse: IdSet = (0..300_000).map(|i| i * 0x1_2345_6789).collect();
    let both = IdSet::combine(countint_core::idset::SetOp::Or, &[&dense, &sparse]);
    for set in [dense, sparse, both] {
        let blobs = blobs_of(&set);
        assert!(blobs.len() > 1 && blobs.iter().all(|blob| blob.len() <= 1 << 20));
        assert_eq!(load(set.len(), &blobs).unwrap(), set);
    }
}

/// A varint for each id, not a container.
#[test]
fn sparse_ids_are_saved_as_varints() {
    let set: IdSet = (0..10_000u64).map(|i| i << 32).collect();
    let bytes: usize = blobs_of(&set).iter().map(Vec::len).sum();
    assert!(bytes <= 51_000, "{bytes}");
}

#[test]
fn invalid_blobs_are_errors() {
    assert_invalid(0, &[]);
    assert_invalid(1, &[]);
    assert_invalid(1, &[&[]]);
    assert_invalid(1, &[&[0, 1]]);
    assert_invalid(1, &[&[3, 1]]);
    assert_invalid(1, &[&[1]]);
    assert_invalid(1, &[&[2]]);
    assert_invalid(0, &[&[1, 7]]);
    assert_invalid(2, &[&[1, 7]]);
    assert_invalid(1, &[&[1, 7], &[]]);
    assert_invalid(1 << 40, &[&[1, 7]]);
    // Varints: not the shortest form, truncated, more than 64 bits, beyond the last id.
    assert_invalid(1, &[&[1, 0x80, 0]]);
    assert_invalid(1, &[&[1, 0x80]]);
    assert_invalid(1, &[&[1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2]]);
    assert_invalid(
        1,
        &[&[1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 129, 0]],
    );
    assert_invalid(
        2,
        &[&[1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0]],
    );
    assert_invalid(
        2,
        &[
            &[1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1],
            &[1, 0],
        ],
    );
    // Blobs out of order, in either encoding.
    for second in [
        varints(&[4]),
        varints(&[5]),
        portable([5]),
        portable([4, 9]),
    ] {
        assert_invalid(1 + (second.len() > 30) as u64, &[&varints(&[5]), &second]);
        assert_invalid(
            if second == portable([4, 9]) { 3 } else { 2 },
            &[&portable([5]), &second],
        );
    }
    assert_invalid(1, &[&portable([]), &varints(&[1])]);
    let mut loader = BlobLoader::new(1);
    assert_eq!(loader.push(&varints(&[u64::MAX])), Ok(()));
    assert_eq!(loader.finish().unwrap().max(), Some(u64::MAX));
}

/// The result is an error or a valid set.
#[test]
fn truncated_or_changed_blobs_are_errors_or_valid_sets() {
    let small: IdSet = [0, 1, 300, 70_000, 1 << 50, u64::MAX].into_iter().collect();
    let arrays: IdSet = (0..1_000).map(|i| i * 11).collect();
    let bits: IdSet = (0..5_000).map(|i| i * 3).collect();
    let sparse: IdSet = (0..400).map(|i| i << 30).collect();
    for set in [small, arrays.clone(), with_runs(&arrays), bits, sparse] {
        let blob = blobs_of(&set).concat();
        for n in 0..blob.len() {
            assert_eq!(load(set.len(), &[&blob[..n]]), Err(SetError::Payload));
        }
        for at in 0..blob.len() {
            for change in [1, 2, 0x10, 0x80, 0xff] {
                let mut bad = blob.clone();
                bad[at] ^= change;
                if let Ok(other) = load(set.len(), &[bad]) {
                    assert_ne!(other, set);
                }
            }
        }
    }
}
