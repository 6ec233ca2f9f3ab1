//! Memory of an object of five counters, by data structure.

use crate::driver::programs::Programs;
use crate::error::Result;
use crate::measure::memory::bytes_each;
use crate::workload::dataset::{DataSet, ObjectKind};
use crate::workload::scale::Scale;

/// The data structures, from the largest to the smallest.
pub const KINDS: [ObjectKind; 5] = [
    ObjectKind::Keys,
    ObjectKind::Hash,
    ObjectKind::TerseHash,
    ObjectKind::CountInt,
    ObjectKind::Packed,
];
/// The number of objects that warm up each server.
pub const WARM_UP: u64 = 20_000;

/// Bytes per object for each of [`KINDS`].
pub struct Entities(pub [f64; KINDS.len()]);

/// Loads each kind into a separate server.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<Entities> {
    let mut bytes = [0.0; KINDS.len()];
    for (kind, bytes) in KINDS.into_iter().zip(&mut bytes) {
        let data = |objects| DataSet::Objects(kind, objects);
        *bytes = bytes_each(programs, data(WARM_UP), data(scale.objects), scale.objects)?;
    }
    Ok(Entities(bytes))
}

impl Entities {
    /// Bytes per object of one kind.
    pub fn bytes(&self, kind: ObjectKind) -> f64 {
        let index = KINDS.iter().position(|&k| k == kind);
        index.map_or(f64::NAN, |index| self.0[index])
    }
}
