//! The decoder of the portable Roaring format, beside CRoaring's.
#![no_main]

use countint_core::idset::{IdSet, SetOp};
use croaring::{Portable, Treemap};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(set) = IdSet::from_portable(bytes) else {
        return;
    };
    set.validate().expect("an imported set is valid");
    let theirs = Treemap::try_deserialize::<Portable>(bytes).expect("CRoaring reads what we do");
    assert_eq!(theirs.cardinality(), set.len());
    assert_eq!((theirs.minimum(), theirs.maximum()), (set.min(), set.max()));

    let again = IdSet::from_portable(&set.export()).expect("what is exported is imported");
    assert_eq!(again, set);
    let smallest = IdSet::combine(SetOp::Or, &[&set]);
    smallest.validate().expect("a result is valid");
    assert_eq!(smallest, set);
    let theirs_of_ours = Treemap::try_deserialize::<Portable>(&smallest.export());
    assert!(theirs_of_ours.expect("CRoaring reads what we export") == theirs);

    // Containers that came in are changed like those that grew here.
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
