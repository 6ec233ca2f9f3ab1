//! The decoder of the portable Roaring format agrees with CRoaring's.
#![no_main]

use countint_core::idset::{IdSet, SetOp};
use croaring::{Portable, Treemap};
use libfuzzer_sys::fuzz_target;

/// Asserts that CRoaring decoded the same set. Compares samples, since sets can be too large to compare all members.
fn assert_same(set: &IdSet, theirs: &Treemap) {
    assert_eq!(theirs.cardinality(), set.len());
    assert_eq!((theirs.minimum(), theirs.maximum()), (set.min(), set.max()));
    let halfway = set.len() / 2;
    assert_eq!(theirs.select(halfway), set.select(halfway));
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(set) = IdSet::from_portable(bytes) else {
        return;
    };
    set.validate().expect("an imported set is valid");
    // The binding computes the start of the next bitmap from its own serialization of the previous one, which can be
    // past the end of the input. So it decodes single bitmaps only, with padding after them.
    if bytes.starts_with(&1u64.to_le_bytes()) {
        let padded = [bytes, &vec![0; bytes.len()]].concat();
        let theirs = Treemap::try_deserialize::<Portable>(&padded).expect("valid for CRoaring");
        assert_same(&set, &theirs);
    }

    let again = IdSet::from_portable(&set.export()).expect("the export is valid");
    assert_eq!(again, set);
    let smallest = IdSet::combine(SetOp::Or, &[&set]);
    smallest.validate().expect("a result is valid");
    assert_eq!(smallest, set);
    let theirs = Treemap::try_deserialize::<Portable>(&smallest.export());
    assert_same(&set, &theirs.expect("the export is valid for CRoaring"));

    // Imported containers can be changed.
    let mut changed = set.clone();
    for m in [set.min(), set.max(), set.select(set.len() / 2)]
        .into_iter()
        .flatten()
    {
        assert!(changed.remove(m));
        changed.validate().expect("valid after a removal");
        changed.insert(m ^ 1);
        changed.insert(m);
        changed.validate().expect("valid after an insertion");
    }
    changed.union_with(smallest);
    changed.validate().expect("valid after a union");
});
