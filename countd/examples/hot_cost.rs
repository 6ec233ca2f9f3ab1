//! What finding hot entities costs a process, without requests: `scripts/bench` compares it with the CPU time of a read.
//!
//!     cargo run --release -p countd --example hot_cost
//!
//! Prints nanoseconds, a line each: of a read and of a write of one of a million entities, and of the work that is done once a second.

use countd::domain::ids::{Entity, Id, Name};
use countd::storage::hot::Accesses;
use std::hint::black_box;
use std::time::Instant;

/// The number of entities, far more than are counted at once, so that most counts replace another one.
const ENTITIES: usize = 1_000_000;
/// How often the work of a second is done.
const SECONDS: usize = 100;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let etype = Name::new("note")?;
    let entity = |number: usize| -> Result<Entity, Box<dyn std::error::Error>> {
        Ok(Entity {
            etype: etype.clone(),
            eid: Id::new((114_327_608_932_745_216 + number).to_string())?,
        })
    };
    let entities: Vec<Entity> = (0..ENTITIES).map(entity).collect::<Result<_, _>>()?;
    let accesses = Accesses::default();
    let each = |times: usize, work: &mut dyn FnMut()| {
        let started = Instant::now();
        work();
        started.elapsed().as_nanos() as f64 / times as f64
    };
    let reads = |entities: &[Entity]| {
        for entity in entities {
            accesses.record_reads(std::slice::from_ref(black_box(entity)));
        }
    };
    // Fills what is counted, and warms up.
    reads(&entities);
    println!("{:.2}", each(ENTITIES, &mut || reads(&entities)));
    let mut writes = || {
        for entity in &entities {
            accesses.record_write(black_box(entity));
        }
    };
    println!("{:.2}", each(ENTITIES, &mut writes));
    let mut seconds = || {
        for _ in 0..SECONDS {
            black_box(accesses.rates());
        }
    };
    println!("{:.0}", each(SECONDS, &mut seconds));
    Ok(())
}
