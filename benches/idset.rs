//! The operations of `IdSet` without a server: dense ids, random 32-bit ids and snowflakes.
//!
//! `cargo bench --bench idset`. `scripts/bench --only library` compares it with `BTreeSet`.

use std::collections::HashSet;
use std::hint::black_box;

use countint_core::idset::{BlobLoader, IdSet, SetOp};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

/// The size of the large sets.
const MANY: usize = 300_000;

/// SplitMix64: the same ids in every run.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Distinct ids in insertion order.
fn ids(kind: &str, n: usize, seed: u64) -> Vec<u64> {
    let mut state = seed;
    let mut seen = HashSet::new();
    let mut all = Vec::with_capacity(n);
    let mut ms = 1_500_000_000_000u64;
    while all.len() < n {
        let random = splitmix(&mut state);
        let id = match kind {
            "dense" => random % (2 * n as u64),
            "sparse32" => random >> 32,
            _ => {
                ms += random % 1_000;
                ms << 22 | (random >> 40 & 31) << 12 | random >> 60
            }
        };
        if seen.insert(id) {
            all.push(id);
        }
    }
    all
}

const KINDS: [&str; 3] = ["dense", "sparse32", "snowflake"];

fn single_members(c: &mut Criterion) {
    for kind in KINDS {
        for n in [5, 100, MANY] {
            let all = ids(kind, 2 * n, 1);
            let (inside, outside) = all.split_at(n);
            let mut set: IdSet = inside.iter().copied().collect();
            let mut group = c.benchmark_group(format!("{kind}/{n}"));
            let mut i = 0;
            let mut next = move |ids: &[u64]| {
                i = (i + 7_919) % ids.len();
                ids[i]
            };
            group.bench_function("contains", |b| b.iter(|| set.contains(next(&all))));
            group.bench_function("insert and remove", |b| {
                b.iter(|| {
                    let m = next(outside);
                    set.insert(m) && set.remove(m)
                })
            });
            let mut out = Vec::with_capacity(100);
            group.bench_function("scan 100", |b| {
                b.iter(|| {
                    out.clear();
                    set.scan(next(inside), 100, &mut out);
                    out.len()
                })
            });
            group.finish();
        }
    }
}

fn whole_sets(c: &mut Criterion) {
    for kind in KINDS {
        let all = ids(kind, MANY, 2);
        // A third of the ids is in both.
        let (left, right) = (&all[..MANY * 2 / 3], &all[MANY / 3..]);
        let [a, b]: [IdSet; 2] = [left, right].map(|ids| ids.iter().copied().collect());
        let mut group = c.benchmark_group(format!("{kind}/whole"));
        group
            .sample_size(20)
            .throughput(Throughput::Elements(left.len() as u64));
        group.bench_function("fill", |bench| {
            bench.iter(|| left.iter().copied().collect::<IdSet>())
        });
        for op in [SetOp::And, SetOp::Or] {
            group.bench_function(BenchmarkId::new("combine", format!("{op:?}")), |bench| {
                bench.iter(|| IdSet::combine(op, &[&a, black_box(&b)]))
            });
            group.bench_function(
                BenchmarkId::new("combine_len", format!("{op:?}")),
                |bench| bench.iter(|| IdSet::combine_len(op, &[&a, black_box(&b)])),
            );
        }
        group.bench_function("save", |bench| {
            bench.iter(|| {
                a.save_blobs(&mut |blob| {
                    black_box(blob);
                })
            })
        });
        let mut blobs: Vec<Vec<u8>> = Vec::new();
        a.save_blobs(&mut |blob| blobs.push(blob.to_vec()));
        group.bench_function("load", |bench| {
            bench.iter(|| {
                let mut loader = BlobLoader::new(a.len());
                blobs.iter().for_each(|blob| loader.push(blob).unwrap());
                loader.finish().unwrap()
            })
        });
        group.finish();
    }
}

criterion_group!(benches, single_members, whole_sets);
criterion_main!(benches);
