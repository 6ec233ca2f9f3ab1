//! What an `IdSet` costs by itself, beside a `BTreeSet<u64>`: dense ids, 32-bit ids at random, and snowflakes.
//!
//! `cargo bench --bench idset`

use std::collections::BTreeSet;
use std::hint::black_box;

use countint_core::idset::{BlobLoader, IdSet, SetOp};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

/// Members of a large set. Small ones have the first few of them.
const MANY: usize = 300_000;

/// The generator of Steele, Lea and Flood: the same ids in every run.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Distinct ids in the order in which they arrive.
fn ids(kind: &str, n: usize, seed: u64) -> Vec<u64> {
    let mut state = seed;
    let mut seen = BTreeSet::new();
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
            let (mut set, mut tree): (IdSet, BTreeSet<u64>) = (
                inside.iter().copied().collect(),
                inside.iter().copied().collect(),
            );
            let mut group = c.benchmark_group(format!("{kind}/{n}"));
            let mut i = 0;
            let mut next = move |ids: &[u64]| {
                i = (i + 7_919) % ids.len();
                ids[i]
            };
            group.bench_function("contains", |b| b.iter(|| set.contains(next(&all))));
            group.bench_function("contains, BTreeSet", |b| {
                b.iter(|| tree.contains(&next(&all)))
            });
            group.bench_function("insert and remove", |b| {
                b.iter(|| {
                    let m = next(outside);
                    set.insert(m) && set.remove(m)
                })
            });
            group.bench_function("insert and remove, BTreeSet", |b| {
                b.iter(|| {
                    let m = next(outside);
                    tree.insert(m) && tree.remove(&m)
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
            group.bench_function("scan 100, BTreeSet", |b| {
                b.iter(|| {
                    out.clear();
                    out.extend(tree.range(next(inside)..).take(100));
                    out.len()
                })
            });
            group.finish();
        }
    }
}

/// The numbers to hold an implementation to: new members in random order into a million, and lookups of which half find
/// something. What counts is the ratio to `BTreeSet`, since machines differ.
fn a_million(c: &mut Criterion) {
    const MILLION: usize = 1_000_000;
    const FRESH: usize = 200_000;
    for kind in KINDS {
        let mut all = ids(kind, MILLION + FRESH, 3);
        // They come in the order of their time, but are asked for in any.
        let mut state = 4;
        for i in (1..all.len()).rev() {
            all.swap(i, splitmix(&mut state) as usize % (i + 1));
        }
        let (inside, fresh) = all.split_at(MILLION);
        let set: IdSet = inside.iter().copied().collect();
        let tree: BTreeSet<u64> = inside.iter().copied().collect();
        let mut group = c.benchmark_group(format!("{kind}/million"));
        group
            .sample_size(10)
            .throughput(Throughput::Elements(FRESH as u64));
        group.bench_function("insert", |b| {
            let insert = |mut set: IdSet| {
                fresh.iter().for_each(|&m| assert!(set.insert(m)));
                set
            };
            b.iter_batched(|| set.clone(), insert, BatchSize::PerIteration)
        });
        group.bench_function("insert, BTreeSet", |b| {
            let insert = |mut tree: BTreeSet<u64>| {
                fresh.iter().for_each(|&m| assert!(tree.insert(m)));
                tree
            };
            b.iter_batched(|| tree.clone(), insert, BatchSize::PerIteration)
        });
        let probes: Vec<u64> = fresh
            .iter()
            .zip(&inside[MILLION - FRESH..])
            .flat_map(|(&out, &member)| [out, member])
            .take(FRESH)
            .collect();
        group.bench_function("contains", |b| {
            b.iter(|| probes.iter().filter(|&&m| set.contains(m)).count())
        });
        group.bench_function("contains, BTreeSet", |b| {
            b.iter(|| probes.iter().filter(|&m| tree.contains(m)).count())
        });
        group.finish();
    }
}

fn whole_sets(c: &mut Criterion) {
    for kind in KINDS {
        let all = ids(kind, MANY, 2);
        // A third in both.
        let (left, right) = (&all[..MANY * 2 / 3], &all[MANY / 3..]);
        let [a, b]: [IdSet; 2] = [left, right].map(|ids| ids.iter().copied().collect());
        let trees: [BTreeSet<u64>; 2] = [left, right].map(|ids| ids.iter().copied().collect());
        let mut group = c.benchmark_group(format!("{kind}/whole"));
        group
            .sample_size(20)
            .throughput(Throughput::Elements(left.len() as u64));
        group.bench_function("fill", |bench| {
            bench.iter(|| left.iter().copied().collect::<IdSet>())
        });
        group.bench_function("fill, BTreeSet", |bench| {
            bench.iter(|| {
                left.iter().copied().fold(BTreeSet::new(), |mut tree, m| {
                    tree.insert(m);
                    tree
                })
            })
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
        group.bench_function("combine, BTreeSet/And", |bench| {
            bench.iter(|| &trees[0] & black_box(&trees[1]))
        });
        group.bench_function("combine, BTreeSet/Or", |bench| {
            bench.iter(|| &trees[0] | black_box(&trees[1]))
        });
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

criterion_group!(benches, single_members, a_million, whole_sets);
criterion_main!(benches);
