//! Sets in the portable format with valid framing that are invalid in one place each, and unusual valid ones.

use super::portable::{Container, array, bitmap, half, half_with, one_half, runs, set, set_with};

/// 5,000 ids: every other number from 0.
fn many() -> impl Iterator<Item = u16> {
    (0..5000).map(|n| 2 * n)
}

/// Invalid sets in the portable format: name, apparent cardinality, bytes.
pub fn invalid_portables() -> Vec<(&'static str, u64, Vec<u8>)> {
    let three = || array(0, &[1, 2, 3]);
    let with_key = |key| array(key, &[1]);
    let full_array: Vec<u16> = (0..4097).collect();
    let mut cut = one_half(&[bitmap(0, many())]);
    cut.truncate(cut.len() - 1);
    let [mut cookie, mut huge_cookie] = [one_half(&[three()]), one_half(&[three()])];
    cookie[12] ^= 1;
    huge_cookie[14] = 1;
    vec![
        ("no bytes", 1, vec![]),
        ("7 bytes", 1, vec![0; 7]),
        (
            "an array out of order",
            3,
            one_half(&[array(0, &[2, 1, 3])]),
        ),
        ("a member twice", 3, one_half(&[array(0, &[1, 1, 3])])),
        (
            "an array with a bitmap's cardinality",
            4097,
            one_half(&[array(0, &full_array)]),
        ),
        ("an array too short", 4, one_half(&[three().claims(4)])),
        ("an array too long", 2, one_half(&[three().claims(2)])),
        (
            "a bitmap with fewer members",
            5001,
            one_half(&[bitmap(0, many()).claims(5001)]),
        ),
        (
            "a bitmap with more members",
            4999,
            one_half(&[bitmap(0, many()).claims(4999)]),
        ),
        (
            "a bitmap that claims to be full",
            65_536,
            one_half(&[bitmap(0, many()).claims(65_536)]),
        ),
        (
            "an empty bitmap container",
            65_536,
            one_half(&[bitmap(0, [])]),
        ),
        ("a bitmap container cut off", 5000, cut),
        ("no runs", 1, one_half(&[runs(0, &[]).claims(1)])),
        ("no runs, full", 65_536, one_half(&[runs(0, &[])])),
        (
            "runs that overlap",
            20,
            one_half(&[runs(0, &[(0, 9), (5, 9)])]),
        ),
        (
            "runs that touch",
            20,
            one_half(&[runs(0, &[(0, 9), (10, 9)])]),
        ),
        (
            "runs out of order",
            20,
            one_half(&[runs(0, &[(100, 9), (0, 9)])]),
        ),
        ("a run twice", 20, one_half(&[runs(0, &[(0, 9), (0, 9)])])),
        (
            "a run past the end",
            100,
            one_half(&[runs(0, &[(65_500, 99)])]),
        ),
        (
            "the longest run, not from 0",
            65_536,
            one_half(&[runs(0, &[(1, 65_535)])]),
        ),
        (
            "runs of another cardinality",
            21,
            one_half(&[runs(0, &[(0, 9), (50, 9)]).claims(21)]),
        ),
        (
            "more runs than there are",
            20,
            one_half(&[Container {
                payload: [&[3, 0][..], &runs(0, &[(0, 9), (50, 9)]).payload[2..]].concat(),
                ..runs(0, &[(0, 9), (50, 9)])
            }]),
        ),
        (
            "containers out of order",
            2,
            one_half(&[with_key(2), with_key(1)]),
        ),
        (
            "a container twice",
            2,
            one_half(&[with_key(2), with_key(2)]),
        ),
        ("no containers", 1, set(&[(0, half(&[]))])),
        (
            "more containers than there are",
            6,
            set(&[(0, half_with(&[three()], 2, 0))]),
        ),
        (
            "65536 containers, of which one is there",
            3,
            set(&[(0, half_with(&[three()], 65_536, 0))]),
        ),
        (
            "65537 containers",
            3,
            set(&[(0, half_with(&[three()], 65_537, 0))]),
        ),
        (
            "2^32-1 containers",
            3,
            set(&[(0, half_with(&[three()], u32::MAX as usize, 0))]),
        ),
        (
            "fewer containers than there are",
            1,
            set(&[(0, half_with(&[with_key(0), with_key(1)], 1, 0))]),
        ),
        (
            "65536 containers with runs, one there",
            3,
            set(&[(0, half_with(&[runs(0, &[(0, 2)])], 65_536, 0))]),
        ),
        (
            "an offset too large",
            3,
            set(&[(0, half_with(&[three()], 1, 1))]),
        ),
        (
            "an offset past the end",
            3,
            set(&[(0, half_with(&[three()], 1, 1 << 30))]),
        ),
        (
            "offsets among runs too large",
            12,
            set(&[(
                0,
                half_with(&[0, 1, 2, 3].map(|k| runs(k, &[(0, 2)])), 4, 1),
            )]),
        ),
        ("an unknown cookie", 3, cookie),
        ("a cookie with high bits", 3, huge_cookie),
        (
            "halves out of order",
            2,
            set(&[(2, half(&[with_key(0)])), (1, half(&[with_key(0)]))]),
        ),
        (
            "a half twice",
            2,
            set(&[(2, half(&[with_key(0)])), (2, half(&[with_key(1)]))]),
        ),
        (
            "more halves than there are",
            1,
            set_with(&[(0, half(&[with_key(0)]))], 2),
        ),
        (
            "2^32 halves",
            1,
            set_with(&[(0, half(&[with_key(0)]))], 1 << 32),
        ),
        (
            "2^40 halves",
            1,
            set_with(&[(0, half(&[with_key(0)]))], 1 << 40),
        ),
        (
            "2^64-1 halves",
            1,
            set_with(&[(0, half(&[with_key(0)]))], u64::MAX),
        ),
        ("2^64-1 halves and nothing else", 1, set_with(&[], u64::MAX)),
        (
            "fewer halves than there are",
            1,
            set_with(&[(0, half(&[with_key(0)])), (1, half(&[with_key(0)]))], 1),
        ),
        (
            "bytes after the end",
            3,
            [one_half(&[three()]), vec![0]].concat(),
        ),
        (
            "a set after the end",
            3,
            [one_half(&[three()]), one_half(&[three()])].concat(),
        ),
    ]
}

/// Unusual valid sets in the portable format: name, cardinality, bytes.
pub fn valid_portables() -> Vec<(&'static str, u64, Vec<u8>)> {
    let last = half(&[array(u16::MAX, &[u16::MAX])]);
    vec![
        (
            "0 and 2^64-1",
            2,
            set(&[(0, half(&[array(0, &[0])])), (u32::MAX, last)]),
        ),
        (
            "a full container of runs",
            65_536,
            one_half(&[runs(7, &[(0, 65_535)])]),
        ),
        ("a full bitmap", 65_536, one_half(&[bitmap(7, 0..=65_535)])),
        ("a run of one", 1, one_half(&[runs(0, &[(9, 0)])])),
        (
            "runs that just do not touch",
            20,
            one_half(&[runs(0, &[(0, 9), (11, 9)])]),
        ),
        (
            "a full array",
            4096,
            one_half(&[array(0, &(0..4096).collect::<Vec<u16>>())]),
        ),
        ("the smallest bitmap", 4097, one_half(&[bitmap(0, 0..4097)])),
        (
            "all kinds",
            5023,
            one_half(&[
                array(0, &[1, 2, 3]),
                bitmap(1, many()),
                runs(2, &[(0, 9), (50, 9)]),
            ]),
        ),
    ]
}
