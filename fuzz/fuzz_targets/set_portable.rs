//! The decoder of the portable Roaring format, compared with CRoaring's.
#![no_main]

use countint_core::idset::{IdSet, SetOp};
use croaring::{Portable, Treemap};
use libfuzzer_sys::fuzz_target;

/// Compares the number of members, the first, the last and one in the middle. There can be too many to compare all.
fn same(set: &IdSet, theirs: &Treemap) {
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
    // The binding expects the next bitmap where its own serialization of the previous one would end, even past the end
    // of the input. Therefore it decodes single bitmaps only, followed by padding.
    if bytes.starts_with(&1u64.to_le_bytes()) {
        let roomy = [bytes, &vec![0; bytes.len()]].concat();
        let theirs =
            Treemap::try_deserialize::<Portable>(&roomy).expect("CRoaring reads what we do");
        same(&set, &theirs);
    }

    let again = IdSet::from_portable(&set.export()).expect("what is exported is imported");
    assert_eq!(again, set);
    let smallest = IdSet::combine(SetOp::Or, &[&set]);
    smallest.validate().expect("a result is valid");
    assert_eq!(smallest, set);
    let theirs = Treemap::try_deserialize::<Portable>(&smallest.export());
    same(&set, &theirs.expect("CRoaring reads what we export"));

    // Decoded containers can be changed like others.
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
