//! Saved values with valid framing that are invalid in one way each, and unusual valid ones.

use super::forged::{Expect, Forged};
use super::forged_portables::{invalid_portables, valid_portables};
use super::portable::{array, blob, one_half, saved, set, varints};
use super::random::Random;
use countint_tests::payload::Body;

/// Sets with valid framing, so that the module must refuse them.
pub fn invalid_sets() -> Vec<Forged> {
    let good = || blob(&one_half(&[array(0, &[1, 2, 3])]));
    let from_ten = || varints(&[10, 0, 0]);
    let one_byte = |n: usize| vec![vec![1; n]];
    let mut all: Vec<(String, Vec<u8>)> = invalid_portables()
        .into_iter()
        .map(|(what, len, portable)| (what.to_owned(), saved(len, &[blob(&portable)])))
        .collect();
    for claim in [0, 1, 2, 4, 1 << 16, 1 << 32, 1 << 40, 1 << 63, u64::MAX] {
        all.push((
            format!("3 members, claimed {claim}"),
            saved(claim, &[good()]),
        ));
        all.push((
            format!("the same in varints, {claim}"),
            saved(claim, &[from_ten()]),
        ));
        all.push((format!("no blobs, {claim} members"), saved(claim, &[])));
    }
    for form in [0, 3, 4, 127, 128, 255] {
        all.push((format!("form {form}"), saved(3, &[vec![form, 10, 0, 0]])));
    }
    let blobs: [(&str, u64, Vec<Vec<u8>>); 14] = [
        ("a form and no members", 1, one_byte(1)),
        ("an empty portable set", 3, vec![blob(&set(&[])), good()]),
        (
            "an empty portable set last",
            3,
            vec![good(), blob(&set(&[]))],
        ),
        ("a form and no members last", 3, vec![good(), vec![1]]),
        ("blobs out of order", 6, vec![from_ten(), good()]),
        ("a blob twice", 6, vec![good(), good()]),
        ("blobs that share a member", 4, vec![good(), varints(&[3])]),
        ("a varint with a needless byte", 1, vec![vec![1, 0x80, 0]]),
        (
            "a varint of 11 bytes",
            1,
            vec![[&[1][..], &[0x80; 10], &[1]].concat()],
        ),
        (
            "a varint of 65 bits",
            1,
            vec![[&[1][..], &[0xff; 9], &[2]].concat()],
        ),
        ("a varint cut off", 1, vec![vec![1, 5, 0x80]]),
        ("a member after 2^64-1", 2, vec![varints(&[u64::MAX, 0])]),
        (
            "a difference past 2^64-1",
            2,
            vec![varints(&[10, u64::MAX - 10])],
        ),
        (
            "a blob after 2^64-1",
            2,
            vec![varints(&[u64::MAX]), varints(&[0])],
        ),
    ];
    all.extend(blobs.map(|(what, len, blobs)| (what.to_owned(), saved(len, &blobs))));
    let head = || Body::module("RoaringBM", 1);
    all.extend([
        (
            "a signed cardinality".into(),
            head().signed(3).string(&good()).string(&[]).end(),
        ),
        (
            "no cardinality".into(),
            head().string(&good()).string(&[]).end(),
        ),
        (
            "two cardinalities".into(),
            head()
                .unsigned(3)
                .unsigned(3)
                .string(&good())
                .string(&[])
                .end(),
        ),
        (
            "no last blob".into(),
            head().unsigned(3).string(&good()).end(),
        ),
        ("nothing".into(), head().end()),
    ]);
    for version in [0, 2, 3, 1023] {
        let body = Body::module("RoaringBM", version)
            .unsigned(3)
            .string(&good())
            .string(&[])
            .end();
        all.push((format!("encoding {version}"), body));
    }
    refused(all)
}

/// The same for counters.
pub fn invalid_counters() -> Vec<Forged> {
    let head = || Body::module("CountInt5", 1);
    let mut all: Vec<(String, Vec<u8>)> = vec![
        ("nothing".into(), head().end()),
        ("a number".into(), head().unsigned(5).end()),
        ("a signed number".into(), head().signed(5).end()),
        (
            "a number before".into(),
            head().unsigned(1).string(&[0; 5]).end(),
        ),
    ];
    let lengths = [
        0,
        1,
        4,
        6,
        9,
        11,
        26,
        327_674,
        327_676,
        327_680,
        327_685,
        655_350,
        1 << 20,
    ];
    for len in lengths {
        all.push((format!("{len} bytes"), head().string(&vec![7; len]).end()));
    }
    for version in [0, 2, 3, 1023] {
        let body = Body::module("CountInt5", version).string(&[7; 5]).end();
        all.push((format!("encoding {version}"), body));
    }
    refused(all)
}

fn refused(all: Vec<(String, Vec<u8>)>) -> Vec<Forged> {
    all.into_iter()
        .map(|(what, bytes)| Forged::new(what, bytes, Expect::Refusal))
        .collect()
}

/// Unusual valid sets.
pub fn valid_sets() -> Vec<Forged> {
    let mut all: Vec<(String, u64, Vec<Vec<u8>>)> = valid_portables()
        .into_iter()
        .map(|(what, len, portable)| (what.to_owned(), len, vec![blob(&portable)]))
        .collect();
    let tail = blob(&one_half(&[array(0, &[11, 12])]));
    all.push((
        "a block in two blobs".into(),
        4,
        vec![varints(&[1, 0]), tail],
    ));
    all.push((
        "0 and the last id".into(),
        2,
        vec![varints(&[0, u64::MAX - 1])],
    ));
    all.push((
        "each member a blob".into(),
        500,
        (0..500).map(|n| varints(&[n])).collect(),
    ));
    all.into_iter()
        .map(|(what, len, blobs)| Forged::new(what, saved(len, &blobs), Expect::Load))
        .collect()
}

/// A body with valid lengths, a damaged byte in its blob, and a matching cardinality.
pub fn damaged_inside(portable: &[u8], len: u64, random: &mut Random) -> Forged {
    let mut damaged = portable.to_vec();
    let at = random.below(damaged.len());
    damaged[at] ^= 1 << random.below(8);
    let len = len.wrapping_add(random.below(3) as u64).wrapping_sub(1);
    Forged::new(
        format!("bit at {at} flipped, cardinality {len}"),
        saved(len, &[blob(&damaged)]),
        Expect::Anything,
    )
}
