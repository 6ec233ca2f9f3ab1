//! The cost of finding hot entities, for each entity of a request.
//!
//! `cargo bench -p countd --bench hot`. Compare it with the time of a request: `countd.batch-entities-per-s` in docs/benchmarks.json.

use countd::domain::ids::{Entity, Id, Name};
use countd::storage::hot::Accesses;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

/// The number of entities: more than a segment counts, so that most counts replace another one.
const MANY: usize = 100_000;

fn entities() -> Vec<Entity> {
    let etype = Name::new("note").expect("a name");
    let ids = (0..MANY).map(|number| (114_327_608_932_745_216 + number).to_string());
    let ids = ids.map(|id| Id::new(id).expect("an ID"));
    ids.map(|eid| Entity {
        etype: etype.clone(),
        eid,
    })
    .collect()
}

fn recording(criterion: &mut Criterion) {
    let entities = entities();
    let accesses = Accesses::default();
    let mut group = criterion.benchmark_group("hot/record");
    for len in [1, 100] {
        group.throughput(Throughput::Elements(len as u64));
        let mut pages = entities.chunks_exact(len).cycle();
        group.bench_function(BenchmarkId::new("reads", len), |bench| {
            bench.iter(|| {
                let page = pages.next().unwrap_or_default();
                accesses.record_reads(black_box(page));
            });
        });
    }
    group.finish();
    // Once a second.
    criterion.bench_function("hot/rates", |bench| bench.iter(|| accesses.rates().len()));
}

criterion_group!(benches, recording);
criterion_main!(benches);
