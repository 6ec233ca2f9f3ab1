//! Batches are applied in order, all or nothing, and report exactly whether anything changed.

use countint_core::countint::{BatchResult, CountError, CountInt, FIELD_MAX, MAX_LEN, Overflow};

use Overflow::{Fail, Saturate};

/// Lengths on both sides of the limits of the implementation, 64 and 65,536 fields.
const LENGTHS: [usize; 6] = [2, 5, 64, 65, 1000, MAX_LEN];

fn with(len: usize, first: &[u64]) -> CountInt {
    let mut fields = CountInt::new(len).unwrap();
    let ops: Vec<_> = first.iter().copied().enumerate().collect();
    fields.set_all(&ops).unwrap();
    fields
}

#[test]
fn repeated_indexes_are_applied_in_order() {
    for o in [Saturate, Fail] {
        let mut fields = with(5, &[10, 20]);
        let mut out = Vec::new();
        let batch = fields.incr_all(
            &[(0, 1), (1, -5), (0, 2), (4, 7), (0, -13), (1, 0)],
            o,
            &mut out,
        );
        assert_eq!(
            batch,
            Ok(BatchResult {
                changed: true,
                saturated: 0
            })
        );
        assert_eq!(out, [11, 15, 13, 7, 0, 15]);
        assert_eq!(fields, with(5, &[0, 15, 0, 0, 7]));
    }
}

#[test]
fn saturated_increments_are_counted_and_later_ones_start_at_the_bound() {
    let mut fields = with(2, &[1, FIELD_MAX - 1]);
    let mut out = Vec::new();
    let ops = [
        (0, -2),
        (0, 5),
        (1, i64::MAX),
        (1, -1),
        (1, 1),
        (0, i64::MIN),
        (0, 0),
    ];
    let batch = fields.incr_all(&ops, Saturate, &mut out);
    assert_eq!(
        batch,
        Ok(BatchResult {
            changed: true,
            saturated: 3
        })
    );
    assert_eq!(out, [0, 5, FIELD_MAX, FIELD_MAX - 1, FIELD_MAX, 0, 0]);
    assert_eq!(fields, with(2, &[0, FIELD_MAX]));
}

#[test]
fn overflow_at_any_position_undoes_the_batch() {
    // Each batch has an increment that overflows, after increments that changed fields, some of them twice.
    let batches: [&[(usize, i64)]; 7] = [
        &[(0, -1)],
        &[(0, 5), (1, -101)],
        &[(0, 7), (1, i64::MAX)],
        &[(1, 5), (0, -1)],
        &[(1, 5), (1, -3), (0, 2), (0, -3)],
        &[(0, 9), (1, 1), (0, -9), (1, 1), (1, i64::MAX), (0, 1)],
        &[(1, 1), (1, 1), (1, 1), (1, i64::MIN), (1, 1)],
    ];
    for len in LENGTHS {
        for ops in batches {
            let before = with(len, &[0, 100]);
            let mut fields = before.clone();
            let mut out = vec![1, 2, 3];
            assert_eq!(
                fields.incr_all(ops, Fail, &mut out),
                Err(CountError::Overflow),
                "{ops:?}"
            );
            assert_eq!(fields, before, "{ops:?}");
            assert_eq!(out, [], "{ops:?}");
        }
    }
}

#[test]
fn index_out_of_range_at_any_position_fails_the_batch() {
    for len in LENGTHS {
        for bad in [len, len + 1, 65_536, usize::MAX] {
            for at in 0..3 {
                let before = with(len, &[4, 4]);
                let mut fields = before.clone();
                let mut out = vec![1];
                let mut ops = vec![(0, 1), (1, 1)];
                ops.insert(at, (bad, 1));
                for o in [Saturate, Fail] {
                    assert_eq!(
                        fields.incr_all(&ops, o, &mut out),
                        Err(CountError::IndexOutOfRange)
                    );
                    assert_eq!(out, []);
                }
                let sets: Vec<_> = ops.iter().map(|&(idx, _)| (idx, 9)).collect();
                assert_eq!(fields.set_all(&sets), Err(CountError::IndexOutOfRange));
                assert_eq!(fields, before);
            }
        }
    }
}

#[test]
fn net_zero_is_not_a_change() {
    let last = |len: usize| len - 1;
    for len in LENGTHS {
        let before = with(len, &[FIELD_MAX, 3]);
        for ops in [
            vec![(1, 0)],
            vec![(1, 1), (1, -1)],
            vec![(last(len), 0), (1, 5), (last(len), 0), (1, -6), (1, 1)],
            // Exactly to the bound and back.
            vec![(0, -1), (1, 7), (0, 9), (1, -7)],
            // Saturates.
            vec![(0, 1), (0, i64::MAX)],
        ] {
            let mut fields = before.clone();
            let batch = fields.incr_all(&ops, Saturate, &mut Vec::new()).unwrap();
            assert!(!batch.changed, "{len} {ops:?}");
            assert_eq!(fields, before);
        }
    }
}

#[test]
fn change_of_one_field_is_reported_among_unchanged_fields() {
    for len in LENGTHS {
        for o in [Saturate, Fail] {
            let mut fields = with(len, &[50, 50]);
            // Field 0 ends where it began; the last field changes in between.
            let ops = [
                (0, 1),
                (0, -1),
                (0, -1),
                (len - 1, 1),
                (0, 1),
                (0, 1),
                (0, -1),
            ];
            let batch = fields.incr_all(&ops, o, &mut Vec::new()).unwrap();
            assert!(batch.changed, "{len}");
        }
    }
}

#[test]
fn change_is_measured_from_the_first_value_of_a_repeated_index() {
    for len in LENGTHS {
        // Field 1 is 3, 5, 3, 7: only its value before the first increment matters.
        let mut fields = with(len, &[0, 3]);
        let batch = fields
            .incr_all(&[(0, 0), (1, 2), (1, -2), (1, 4)], Fail, &mut Vec::new())
            .unwrap();
        assert!(batch.changed);
        let batch = fields
            .incr_all(&[(0, 0), (1, 2), (1, 4), (1, -6)], Fail, &mut Vec::new())
            .unwrap();
        assert!(!batch.changed);
    }
}

#[test]
fn set_all_keeps_the_last_value_of_a_repeated_index() {
    for len in LENGTHS {
        let mut fields = with(len, &[1, 2]);
        assert_eq!(fields.set_all(&[(0, 7), (1, 8), (0, FIELD_MAX)]), Ok(true));
        assert_eq!(fields, with(len, &[FIELD_MAX, 8]));
        assert_eq!(
            fields.set_all(&[(0, 0), (1, 0), (1, 8), (0, FIELD_MAX)]),
            Ok(false)
        );
        assert_eq!(fields, with(len, &[FIELD_MAX, 8]));
        assert_eq!(fields.set_all(&[(1, 8)]), Ok(false));
        assert_eq!(fields.set_all(&[(1, 9)]), Ok(true));
        assert_eq!(fields.set_all(&[(0, FIELD_MAX), (len - 1, 10)]), Ok(true));
    }
}

#[test]
fn set_all_is_all_or_nothing() {
    let mut fields = with(2, &[1, 2]);
    let before = fields.clone();
    assert_eq!(
        fields.set_all(&[(0, 5), (1, FIELD_MAX + 1)]),
        Err(CountError::ValueOutOfRange)
    );
    assert_eq!(
        fields.set_all(&[(0, 5), (2, 5)]),
        Err(CountError::IndexOutOfRange)
    );
    // Values are checked before indexes.
    assert_eq!(
        fields.set_all(&[(2, 5), (0, u64::MAX)]),
        Err(CountError::ValueOutOfRange)
    );
    assert_eq!(fields.set_all(&[(2, 5)]), Err(CountError::IndexOutOfRange));
    assert_eq!(
        fields.set_all(&[(0, u64::MAX)]),
        Err(CountError::ValueOutOfRange)
    );
    assert_eq!(fields, before);
}

#[test]
fn batch_of_a_million_increments_on_two_fields_is_exact() {
    for len in [2, MAX_LEN] {
        let ops: Vec<_> = (0..1_000_000)
            .map(|i| (i % 2 * (len - 1), if i < 500_000 { 3 } else { -3 }))
            .collect();
        let mut fields = CountInt::new(len).unwrap();
        let mut out = Vec::new();
        assert_eq!(
            fields.incr_all(&ops, Fail, &mut out),
            Ok(BatchResult {
                changed: false,
                saturated: 0
            })
        );
        assert_eq!(out.len(), ops.len());
        assert_eq!((out[499_999], out[999_999]), (750_000, 0));

        let refused: Vec<_> = ops.iter().copied().chain([(0, -1)]).collect();
        assert_eq!(
            fields.incr_all(&refused, Fail, &mut out),
            Err(CountError::Overflow)
        );
        assert_eq!(fields, CountInt::new(len).unwrap());
    }
}
