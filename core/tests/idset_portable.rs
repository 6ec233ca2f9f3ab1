//! The portable format: exchange with CRoaring in both directions, and invalid payloads.

mod idset_support;

use std::collections::BTreeSet;

use countint_core::idset::{IdSet, SetError};
use croaring::{Portable, Treemap};
use idset_support::*;
use proptest::prelude::*;

fn by_croaring(bytes: &[u8]) -> Treemap {
    Treemap::try_deserialize::<Portable>(bytes).expect("the export is valid for CRoaring")
}

fn assert_exchange(members: &BTreeSet<u64>) {
    let all: Vec<u64> = members.iter().copied().collect();
    let mut theirs = Treemap::of(&all);
    let plain = theirs.get_serialized_size_in_bytes::<Portable>();
    for optimized in [false, true] {
        if optimized {
            theirs.run_optimize();
        }
        let bytes = theirs.serialize::<Portable>();
        let ours = IdSet::from_portable(&bytes).unwrap();
        assert_same(&ours, members);
        assert!(by_croaring(&ours.export()).iter().eq(all.iter().copied()));
        assert!(
            with_runs(&ours).export().len() <= plain,
            "no container is larger than it must be"
        );
    }
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn sets_are_exchanged_with_croaring((set, model) in sets()) {
        let theirs = by_croaring(&set.export());
        prop_assert!(theirs.iter().eq(model.iter().copied()));
        prop_assert_eq!(theirs.get_serialized_size_in_bytes::<Portable>(), set.export().len());
        assert_exchange(&model);
    }

    #[test]
    fn exported_range_has_the_members_of_the_range((set, model) in sets(), a in member(), b in member()) {
        let part: BTreeSet<u64> = if a <= b { model.range(a..=b).copied().collect() } else { BTreeSet::new() };
        let bytes = set.export_range(a, b);
        assert_same(&IdSet::from_portable(&bytes).unwrap(), &part);
        prop_assert!(by_croaring(&bytes).iter().eq(part));
    }

    #[test]
    fn chunks_together_are_the_set((set, model) in sets(), max in 0usize..200_000) {
        let (mut joined, mut last) = (IdSet::new(), None);
        set.export_chunks(max, &mut |bytes| {
            assert!(bytes.len() <= max.max(16 << 10));
            let piece = IdSet::from_portable(bytes).unwrap();
            assert!(piece.min() > last, "pieces ascend");
            last = piece.max();
            assert_eq!(joined.union_with(piece.clone()), piece.len());
            true
        });
        assert_same(&joined, &model);
    }

    #[test]
    fn random_bytes_after_a_valid_header_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), runs in 0u32..4) {
        let cookie = if runs > 0 { 12347 | (runs - 1) << 16 } else { 12346 };
        let mut blob = frame(&[(7, Vec::new())]);
        blob.extend_from_slice(&cookie.to_le_bytes());
        blob.extend(bytes);
        if let Ok(set) = IdSet::from_portable(&blob) {
            set.validate().unwrap();
        }
    }
}

/// At the limits between array, bitmap and run containers, in several high halves.
#[test]
fn containers_of_each_kind_are_exchanged() {
    for n in [1, 2, 3, 4_095, 4_096, 4_097, 65_535, 65_536] {
        for step in [1, 2, 15] {
            for halves in [1, 3, 5] {
                let one = (0..n).map(|i| i * step).filter(|m| m >> 16 < 4);
                let all = one.flat_map(|low| (0..halves).map(move |half| half << 40 | low));
                assert_exchange(&all.collect());
            }
        }
    }
    assert_exchange(&(u64::MAX - 70_000..=u64::MAX).collect());
    assert_exchange(&BTreeSet::new());
}

/// An empty set has no chunks.
#[test]
fn export_stops_when_emit_returns_false() {
    let set: IdSet = (0..1_000).map(|i| i << 24).collect();
    let mut calls = 0;
    set.export_chunks(16 << 10, &mut |_| {
        calls += 1;
        false
    });
    assert_eq!(calls, 1);
    IdSet::new().export_chunks(16 << 10, &mut |_| panic!("an empty set has no piece"));
}

// Hand-made frames.

fn frame(halves: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = (halves.len() as u64).to_le_bytes().to_vec();
    for (half, bitmap) in halves {
        bytes.extend_from_slice(&half.to_le_bytes());
        bytes.extend_from_slice(bitmap);
    }
    bytes
}

/// A bitmap without runs: `(key, stated cardinality, payload)`. `skew` is added to the offsets.
fn plain(containers: &[(u16, u32, Vec<u8>)], skew: u32) -> Vec<u8> {
    let n = containers.len() as u32;
    let mut bytes = [12346u32.to_le_bytes(), n.to_le_bytes()].concat();
    let mut offset = 8 + 8 * n + skew;
    for (key, cardinality, _) in containers {
        bytes.extend_from_slice(&key.to_le_bytes());
        bytes.extend_from_slice(&((cardinality - 1) as u16).to_le_bytes());
    }
    for (_, _, payload) in containers {
        bytes.extend_from_slice(&offset.to_le_bytes());
        offset += payload.len() as u32;
    }
    containers
        .iter()
        .for_each(|(_, _, payload)| bytes.extend_from_slice(payload));
    bytes
}

/// A bitmap of one container of runs: `(first, length less one)`.
fn runs(cardinality: u32, runs: &[(u16, u16)]) -> Vec<u8> {
    let mut bytes = 12347u32.to_le_bytes().to_vec();
    bytes.extend_from_slice(&[1, 0, 0]);
    bytes.extend_from_slice(&((cardinality - 1) as u16).to_le_bytes());
    bytes.extend_from_slice(&(runs.len() as u16).to_le_bytes());
    for (first, more) in runs {
        bytes.extend_from_slice(&first.to_le_bytes());
        bytes.extend_from_slice(&more.to_le_bytes());
    }
    bytes
}

fn lows(members: &[u16]) -> Vec<u8> {
    members.iter().flat_map(|m| m.to_le_bytes()).collect()
}

/// The payload of a bitmap container with the first `n` members.
fn bits(n: usize) -> Vec<u8> {
    let mut payload = vec![0u8; 8192];
    (0..n).for_each(|i| payload[i / 8] |= 1 << (i % 8));
    payload
}

fn assert_invalid(bytes: &[u8]) {
    assert_eq!(IdSet::from_portable(bytes).unwrap_err(), SetError::Payload);
}

#[test]
fn valid_frames_are_decoded() {
    let good = [
        (frame(&[]), 0),
        (frame(&[(0, plain(&[(0, 2, lows(&[3, 9]))], 0))]), 2),
        (
            frame(&[
                (1, plain(&[(0, 5000, bits(5000)), (9, 1, lows(&[0]))], 0)),
                (2, runs(65_536, &[(0, 65_535)])),
            ]),
            70_537,
        ),
        (frame(&[(0, runs(3, &[(0, 0), (2, 1)]))]), 3),
    ];
    for (bytes, len) in good {
        let set = IdSet::from_portable(&bytes).unwrap();
        set.validate().unwrap();
        assert_eq!(set.len(), len);
        assert_eq!(by_croaring(&bytes).cardinality(), len);
    }
}

#[test]
fn invalid_frames_are_errors() {
    let one = plain(&[(0, 2, lows(&[3, 9]))], 0);
    assert_invalid(&[]);
    assert_invalid(&frame(&[(5, one.clone()), (5, one.clone())]));
    assert_invalid(&frame(&[(5, one.clone()), (4, one.clone())]));
    assert_invalid(&frame(&[(5, plain(&[], 0))]));
    assert_invalid(&[frame(&[(5, one.clone())]), vec![0]].concat());
    assert_invalid(
        &[
            (1u64 << 40).to_le_bytes().to_vec(),
            frame(&[(5, one)])[8..].to_vec(),
        ]
        .concat(),
    );
    let container = |key, cardinality, payload| (key, cardinality, payload);
    for containers in [
        vec![container(0, 2, lows(&[3, 3]))],
        vec![container(0, 2, lows(&[9, 3]))],
        vec![container(0, 1, lows(&[3, 9]))],
        vec![container(0, 3, lows(&[3, 9]))],
        vec![container(0, 4_097, bits(4_098))],
        vec![container(0, 5_000, bits(4_000))],
        vec![container(0, 4_000, bits(4_000))],
        vec![container(4, 1, lows(&[1])), container(4, 1, lows(&[2]))],
        vec![container(4, 1, lows(&[1])), container(3, 1, lows(&[1]))],
    ] {
        assert_invalid(&frame(&[(0, plain(&containers, 0))]));
    }
    assert_invalid(&frame(&[(0, plain(&[(0, 2, lows(&[3, 9]))], 1))]));
    let mut too_many = plain(&[(0, 1, lows(&[1]))], 0);
    too_many[4..8].copy_from_slice(&65_537u32.to_le_bytes());
    assert_invalid(&frame(&[(0, too_many)]));
    let mut cookie = plain(&[(0, 1, lows(&[1]))], 0);
    cookie[0] += 2;
    assert_invalid(&frame(&[(0, cookie)]));
}

#[test]
fn invalid_runs_are_errors() {
    for (cardinality, intervals) in [
        (1, vec![]),
        (3, vec![(0, 1)]),
        (1, vec![(0, 1)]),
        (4, vec![(0, 1), (2, 1)]),
        (4, vec![(0, 1), (1, 1)]),
        (2, vec![(5, 0), (3, 0)]),
        (2, vec![(5, 0), (5, 0)]),
        (3, vec![(65_534, 2)]),
        (2, vec![(65_535, 0), (0, 0)]),
    ] {
        assert_invalid(&frame(&[(0, runs(cardinality, &intervals))]));
    }
}

/// No prefix is valid. A changed byte makes an error or a valid set.
#[test]
fn truncated_or_changed_payloads_are_errors_or_valid_sets() {
    let samples: [Vec<u64>; 4] = [
        vec![0, 5, 65_536, 1 << 32, u64::MAX],
        (0..300)
            .map(|i| i * 7)
            .chain((0..6).map(|i| i << 33))
            .collect(),
        (0..5_000).chain((0..20).map(|i| (i + 2) << 16)).collect(),
        (0..5_000).map(|i| i * 3).collect(),
    ];
    for members in samples {
        let plain: IdSet = members.into_iter().collect();
        for set in [with_runs(&plain), plain] {
            let bytes = set.export();
            (0..bytes.len()).for_each(|n| assert_invalid(&bytes[..n]));
            for at in 0..bytes.len() {
                for change in [1, 2, 0x10, 0x80, 0xff] {
                    let mut bad = bytes.clone();
                    bad[at] ^= change;
                    if let Ok(other) = IdSet::from_portable(&bad) {
                        other.validate().unwrap();
                        // Only the flag of a container that does not exist can change without effect.
                        assert!(other != set || (16..20).contains(&at), "byte {at}");
                    }
                }
            }
        }
    }
}
