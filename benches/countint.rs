//! The operations of CountInt and the parsing of decimals, without a server.
//!
//! `cargo bench --bench countint`

use std::hint::black_box;

use countint_core::countint::{CountInt, FIELD_MAX, MAX_LEN, Overflow};
use countint_core::decimal::{parse_i64, parse_u64};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

fn one_field(c: &mut Criterion) {
    let mut object = CountInt::new(5).unwrap();
    c.bench_function("get", |b| b.iter(|| object.get(black_box(3))));
    c.bench_function("set", |b| b.iter(|| object.set(black_box(3), black_box(1))));
    c.bench_function("incr", |b| {
        b.iter(|| object.incr(black_box(3), black_box(1), Overflow::Saturate))
    });
    object.set(3, FIELD_MAX).unwrap();
    c.bench_function("incr at the maximum", |b| {
        b.iter(|| object.incr(black_box(3), black_box(1), Overflow::Saturate))
    });
    c.bench_function("read five", |b| {
        b.iter(|| black_box(&object).iter().map(black_box).sum::<u64>())
    });
}

fn objects(c: &mut Criterion) {
    let object = CountInt::from_bytes(&[1; 25]).unwrap();
    c.bench_function("new and drop, five fields", |b| {
        b.iter(|| CountInt::new(black_box(5)))
    });
    c.bench_function("from_bytes and drop, five fields", |b| {
        b.iter(|| CountInt::from_bytes(black_box(&[1; 25])))
    });
    c.bench_function("grow five fields to six", |b| {
        b.iter(|| black_box(&object).resized(6))
    });
}

/// Batches of distinct fields, of repeated fields, and of increments that cancel out, which need the full comparison to
/// detect that nothing changed. The time per pair should hardly depend on the size of the batch.
fn batches(c: &mut Criterion) {
    let mut group = c.benchmark_group("incr_all");
    for (len, pairs) in [
        (5, 5),
        (64, 64),
        (1000, 5),
        (1000, 1000),
        (MAX_LEN, 1_000_000),
    ] {
        let distinct: Vec<_> = (0..pairs).map(|i| (i % len, 1)).collect();
        let repeated: Vec<_> = (0..pairs).map(|i| (i % 2, 1)).collect();
        let cancelling: Vec<_> = (0..pairs)
            .map(|i| (0, [0, 1, -1][i % 3 * usize::from(i < pairs / 3 * 3)]))
            .collect();
        group.throughput(Throughput::Elements(pairs as u64));
        for (name, ops) in [
            ("distinct", distinct),
            ("repeated", repeated),
            ("cancelling", cancelling),
        ] {
            let mut object = CountInt::new(len).unwrap();
            let mut out = Vec::with_capacity(pairs);
            group.bench_with_input(
                BenchmarkId::new(name, format!("{pairs} of {len}")),
                &ops,
                |b, ops| {
                    b.iter(|| object.incr_all(black_box(ops), Overflow::Saturate, &mut out));
                },
            );
        }
    }
    group.finish();

    let mut group = c.benchmark_group("set_all");
    for (len, pairs) in [(5, 5), (1000, 5), (MAX_LEN, 1_000_000)] {
        let ops: Vec<_> = (0..pairs).map(|i| (i % len, 1)).collect();
        let mut object = CountInt::new(len).unwrap();
        group.throughput(Throughput::Elements(pairs as u64));
        group.bench_with_input(
            BenchmarkId::new("distinct", format!("{pairs} of {len}")),
            &ops,
            |b, ops| {
                b.iter(|| object.set_all(black_box(ops)));
            },
        );
    }
    group.finish();
}

fn decimals(c: &mut Criterion) {
    let mut group = c.benchmark_group("decimal");
    for text in ["1", "-1", "65534", "1099511627775", "-9223372036854775808"] {
        group.bench_function(BenchmarkId::new("parse_i64", text), |b| {
            b.iter(|| parse_i64(black_box(text.as_bytes())));
        });
    }
    for text in ["0", "1234567", "18446744073709551615"] {
        group.bench_function(BenchmarkId::new("parse_u64", text), |b| {
            b.iter(|| parse_u64(black_box(text.as_bytes())));
        });
    }
    group.finish();
}

criterion_group!(benches, one_field, objects, batches, decimals);
criterion_main!(benches);
