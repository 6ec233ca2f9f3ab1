//! Damage to valid bodies: flipped bytes, truncations, insertions, changed lengths.

use super::body::{self, Number, Parts, Role, replaced};
use super::random::Random;
use countint_tests::payload::module_id;

/// Bodies up to this length are damaged exhaustively, longer ones at sampled positions.
const SMALL: usize = 450;
/// Bodies up to this length are damaged at least once at every byte.
const MEDIUM: usize = 10_000;
/// The number of sampled positions of a longer body, at its ends and in between.
const PLACES: usize = 20;

/// A damaged body and the kind of damage.
pub type Damaged = (String, Vec<u8>);

/// The positions to damage: all, or both ends and some in between.
fn places(len: usize, random: &mut Random) -> Vec<usize> {
    if len <= MEDIUM {
        return (0..len).collect();
    }
    let mut places: Vec<usize> = (0..PLACES).chain(len - 8..len).collect();
    places.extend((0..PLACES).map(|_| random.below(len)));
    places
}

/// A bit of every byte flipped; in a small body every bit, and every byte replaced.
pub fn flips<'a>(bytes: &'a [u8], random: &mut Random) -> impl Iterator<Item = Damaged> + use<'a> {
    let places = places(bytes.len(), random);
    let one_bit: Vec<u32> = places.iter().map(|_| random.below(8) as u32).collect();
    places.into_iter().zip(one_bit).flat_map(move |(at, bit)| {
        let values = if bytes.len() <= SMALL {
            let mut values: Vec<u8> = (0..8).map(|bit| bytes[at] ^ 1 << bit).collect();
            values.extend([0, 0x7f, 0x80, 0xff, !bytes[at], bytes[at].wrapping_add(1)]);
            values.retain(|value| *value != bytes[at]);
            values.sort_unstable();
            values.dedup();
            values
        } else {
            vec![bytes[at] ^ 1 << bit]
        };
        values.into_iter().map(move |value| {
            let mut damaged = bytes.to_vec();
            damaged[at] = value;
            (format!("byte {at} is {value:#x}"), damaged)
        })
    })
}

/// Every truncation (a sample for longer bodies); in a small body also with the last byte kept, which may be the value's
/// end opcode.
pub fn truncations<'a>(
    bytes: &'a [u8],
    random: &mut Random,
) -> impl Iterator<Item = Damaged> + use<'a> {
    let end = bytes.len() - 1;
    let keep_end = bytes.len() <= SMALL;
    let step = if bytes.len() <= MEDIUM / 4 { 1 } else { 5 };
    let places = places(bytes.len(), random).into_iter().step_by(step);
    places.flat_map(move |at| {
        let cut = (format!("cut at {at}"), bytes[..at].to_vec());
        let taken_out = keep_end.then(|| {
            let what = format!("{at}..{end} taken out");
            (what, replaced(bytes, &(at..end), &[]))
        });
        [Some(cut), taken_out].into_iter().flatten()
    })
}

/// A byte inserted, at every position of a small body.
pub fn insertions<'a>(
    bytes: &'a [u8],
    random: &mut Random,
) -> impl Iterator<Item = Damaged> + use<'a> {
    let places = places(bytes.len(), random);
    let inserted = random.bytes(places.len());
    let step = if bytes.len() <= SMALL { 1 } else { 7 };
    places
        .into_iter()
        .zip(inserted)
        .step_by(step)
        .map(move |(at, new)| {
            let longer = replaced(bytes, &(at..at), &[new]);
            (format!("{new:#x} put in at {at}"), longer)
        })
}

/// Every length, opcode and number of a body changed, and re-encoded in every width.
pub fn lengths(body: &[u8]) -> Vec<Damaged> {
    let mut all = Vec::new();
    let parts = Parts::of(body);
    for number in &parts.numbers {
        for value in others(number) {
            for bytes in body::encodings(value) {
                let what = format!("{:?} {} is {bytes:x?}", number.role, number.value);
                all.push((what, replaced(body, &number.at, &bytes)));
            }
        }
        // Redis's encodings of integers and compressed strings, and invalid ones.
        for first in [0x82, 0xbf, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xfe, 0xff] {
            let what = format!("{:?} {} begins with {first:#x}", number.role, number.value);
            all.push((what, replaced(body, &number.at, &[first])));
        }
    }
    for text in &parts.texts {
        let literals = body::lzf_literals(&body[text.bytes.clone()]);
        let (stated, expanded) = (literals.len() as u64, text.bytes.len() as u64);
        for (stated, expanded) in lzf_lengths(stated, expanded) {
            let new = body::compressed(stated, expanded, &literals);
            let what = format!("compressed: {stated} bytes that expand to {expanded}");
            all.push((what, replaced(body, &text.whole, &new)));
        }
    }
    all
}

fn others(number: &Number) -> Vec<u64> {
    let v = number.value;
    let mut others = match number.role {
        // 2^60 bytes cannot be allocated; 2^32 bytes can, but the body is shorter.
        Role::Opcode => (0..=8)
            .chain([63, 64, 1 << 14, 1 << 32, u64::MAX])
            .collect(),
        Role::Id => identities(v),
        _ => vec![
            0,
            1,
            v.wrapping_sub(1),
            v,
            v.wrapping_add(1),
            v.wrapping_mul(2),
            63,
            64,
            16_383,
            16_384,
            1 << 16,
            1 << 31,
            (1 << 32) - 1,
            1 << 32,
            1 << 40,
            1 << 63,
            u64::MAX,
        ],
    };
    others.sort_unstable();
    others.dedup();
    others
}

/// Other types, other encoding versions, and unknown types.
fn identities(id: u64) -> Vec<u64> {
    let mut ids: Vec<u64> = [
        "CountInt5",
        "CountTab5",
        "RoaringBM",
        "CountInt4",
        "ReJSON-RL",
    ]
    .iter()
    .flat_map(|name| [0, 1, 2, 1023].map(|version| module_id(name, version)))
    .collect();
    ids.extend([0, id ^ 1 << 63, u64::MAX]);
    ids
}

fn lzf_lengths(stated: u64, expanded: u64) -> Vec<(u64, u64)> {
    let mut all = vec![(stated, expanded), (0, expanded), (stated, 0), (0, 0)];
    all.extend(
        [stated.saturating_sub(1), stated + 1, 1 << 32, u64::MAX].map(|stated| (stated, expanded)),
    );
    all.extend([1, expanded + 1, 1 << 20, 1 << 40, u64::MAX].map(|expanded| (stated, expanded)));
    all
}

/// A body that begins with `head` and continues at random, sometimes with well-formed parts.
pub fn random_body(head: &[u8], random: &mut Random) -> Vec<u8> {
    let mut body = head.to_vec();
    if random.below(4) == 0 {
        let len = random.below(200);
        body.extend(random.bytes(len));
        return body;
    }
    for _ in 0..random.below(5) {
        match random.below(4) {
            0 => {
                let value = random.next() >> random.below(64);
                body.push(2);
                body.extend_from_slice(&body::encodings(value)[0]);
            }
            _ => {
                let len = random.below(60);
                let mut bytes = random.bytes(len);
                // The first byte of a blob is its encoding, mostly a valid one.
                if let Some(first) = bytes.first_mut().filter(|_| random.below(4) > 0) {
                    *first = 1 + *first % 2;
                }
                body.push(5);
                body.extend_from_slice(&body::encodings(len as u64)[0]);
                body.extend_from_slice(&bytes);
            }
        }
    }
    body.push(0);
    body
}
