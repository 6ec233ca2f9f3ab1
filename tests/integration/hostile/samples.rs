//! Valid values, as a server saves and exports them.

use super::forged::Kind;
use super::portable::{array, bitmap, half, one_half, runs, set};
use super::random::Random;
use countint_tests::payload::Payload;
use countint_tests::{Client, args, reply};
use roaring::RoaringTreemap;

/// A valid value.
pub struct Sample {
    pub name: &'static str,
    /// The saved body.
    pub body: Vec<u8>,
    /// The reply of EXPORT.
    pub export: Vec<u8>,
    /// Whether the export ends with a checksum.
    pub sealed: bool,
}

/// Creates all samples of a type on a server, and leaves the server empty.
pub fn samples(client: &mut Client, kind: Kind, random: &mut Random) -> Vec<Sample> {
    if kind == Kind::Table {
        return tables(client, random);
    }
    let (imports, import, export) = match kind {
        Kind::Counters => (counters(random), "CINT.IMPORT", "CINT.EXPORT"),
        Kind::Set | Kind::Table => (sets(random), "RBM.IMPORT", "RBM.EXPORT"),
    };
    imports
        .into_iter()
        .map(|(name, bytes)| {
            client.call(&args![import, "sample", bytes]);
            let dump = reply::bytes(client.ok("DUMP sample"));
            let export = reply::bytes(client.call(&args![export, "sample"]));
            client.ok("DEL sample");
            Sample {
                name,
                body: Payload::parse(&dump).body,
                export,
                sealed: false,
            }
        })
        .collect()
}

/// Tables created by commands.
fn tables(client: &mut Client, random: &mut Random) -> Vec<Sample> {
    let mut rows = |len: u64, ids: Vec<u64>, bits: u32| {
        let commands = ids.into_iter().map(|id| {
            let value = random.next() >> (64 - bits);
            args!["CTAB.INCRBY", "sample", id, id % len, value, "LEN", len].to_vec()
        });
        commands.collect::<Vec<_>>()
    };
    let snowflakes = (0..70u64).map(|i| ((i * 37) << 22) | (i % 7)).collect();
    let mut fenced = rows(3, (0..9).collect(), 9);
    for source in [0, 3, 65_534] {
        fenced.push(args!["CTAB.MAPPLY", "sample", source, 0, 1u64 << 38, 1, 0, 1].to_vec());
    }
    let all = [
        ("a row", rows(5, vec![7], 9)),
        ("rows in sequence", rows(5, (0..40).collect(), 12)),
        (
            "rows of zeros",
            vec![args!["CTAB.MINCRBY", "sample", 7, 0, 0, 9, 0, 0, 1 << 20, 0, 0].to_vec()],
        ),
        ("the last ids", rows(2, vec![u64::MAX - 1, u64::MAX, 0], 40)),
        ("no rows", vec![args!["CTAB.INIT", "sample", 5].to_vec()]),
        ("fences", fenced),
        ("snowflakes", rows(4, snowflakes, 20)),
        (
            "a hundred columns",
            rows(100, (0..20).map(|i| i * 3).collect(), 17),
        ),
        ("many pages", rows(5, (0..700).map(|i| i * i).collect(), 30)),
        ("long rows", rows(65_535, vec![1, 65_534, 70_000], 33)),
    ];
    all.map(|(name, commands)| {
        client.pipeline(&commands);
        let dump = reply::bytes(client.ok("DUMP sample"));
        let export = reply::bytes(client.call(&args!["CTAB.EXPORT", "sample", 0, u64::MAX]));
        client.ok("DEL sample");
        Sample {
            name,
            body: Payload::parse(&dump).body,
            export,
            sealed: true,
        }
    })
    .into()
}

fn counters(random: &mut Random) -> Vec<(&'static str, Vec<u8>)> {
    let zeros = |len: usize| vec![0; 5 * len];
    vec![
        ("1 counter", vec![0, 0, 0, 1, 44]),
        ("5 counters", random.bytes(25)),
        ("5 counters of 0", zeros(5)),
        ("60 counters", random.bytes(300)),
        ("300 counters", random.bytes(1500)),
        ("500 counters of 0", zeros(500)),
        ("65535 counters", random.bytes(5 * 65_535)),
    ]
}

fn sets(random: &mut Random) -> Vec<(&'static str, Vec<u8>)> {
    let sparse = random.ascending(40, u64::MAX);
    let lows = |members: Vec<u64>| -> Vec<u16> { members.into_iter().map(|m| m as u16).collect() };
    let some = lows(random.ascending(20, 1 << 16));
    let array_like = lows(random.ascending(400, 1 << 16));
    let close = lows(random.ascending(480, 1 << 16));
    let full = lows(random.ascending(30_000, 1 << 16));
    let run = [(3, 30), (1000, 9), (65_500, 35)];
    let halves: Vec<(u32, Vec<u8>)> = [0, 1, 77, 1 << 31, u32::MAX]
        .map(|high| {
            let parts = [
                array(1, &some),
                runs(2, &run),
                array(u16::MAX, &[0, 9, u16::MAX]),
            ];
            (high, half(&parts))
        })
        .to_vec();
    vec![
        ("one member", portable([7_000_000_000])),
        ("the last id", portable([u64::MAX])),
        ("a compact set", portable(sparse)),
        ("a compact set of neighbours", portable(1000..1100)),
        ("an array", one_half(&[array(9, &array_like)])),
        ("an array saved as varints", one_half(&[array(9, &close)])),
        ("a bitmap", one_half(&[bitmap(9, full)])),
        ("runs", one_half(&[runs(9, &run)])),
        ("one long run", one_half(&[runs(9, &[(0, 2000)])])),
        ("five halves", set(&halves)),
        ("a large set", portable(random.ascending(5000, 1 << 40))),
    ]
}

fn portable(members: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let set: RoaringTreemap = members.into_iter().collect();
    let mut bytes = Vec::new();
    set.serialize_into(&mut bytes)
        .expect("a Vec takes all bytes");
    bytes
}
