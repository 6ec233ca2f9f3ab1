//! The bounds of indexes, values, deltas and lengths.

use countint_core::countint::{
    BatchResult, CountError, CountInt, FIELD_MAX, Fields, IncrResult, MAX_LEN, Overflow,
};

use Overflow::{Fail, Saturate};

fn with(values: &[u64]) -> CountInt {
    let mut fields = CountInt::new(values.len()).unwrap();
    for (idx, &value) in values.iter().enumerate() {
        fields.set(idx, value).unwrap();
    }
    fields
}

fn values(fields: &Fields) -> Vec<u64> {
    fields.iter().collect()
}

#[test]
fn lengths_out_of_range_are_errors() {
    for len in [1, 5, MAX_LEN] {
        let new = CountInt::new(len).unwrap();
        assert_eq!(new.len(), len);
        assert!(!new.is_empty());
        assert_eq!(new.iter().len(), len);
        assert!(new.as_bytes().iter().all(|&byte| byte == 0));
        assert_eq!(new.get(len - 1), Some(0));
        assert_eq!(new.get(len), None);
        assert_eq!(new.get(usize::MAX), None);
    }
    for len in [0, MAX_LEN + 1, usize::MAX] {
        assert_eq!(CountInt::new(len), Err(CountError::Length));
        assert_eq!(with(&[0]).resized(len), Err(CountError::Length));
        // The length is checked before the fields.
        assert_eq!(with(&[1]).resized(len), Err(CountError::Length));
    }
}

#[test]
fn countint_is_one_pointer() {
    assert_eq!(size_of::<CountInt>(), size_of::<*mut u8>());
    assert_eq!(size_of::<Option<CountInt>>(), size_of::<*mut u8>());
}

#[test]
fn set_accepts_values_up_to_the_bounds() {
    let mut fields = with(&[7, 7, 7]);
    assert_eq!(fields.set(0, 0), Ok(7));
    assert_eq!(fields.set(1, FIELD_MAX), Ok(7));
    assert_eq!(fields.set(1, FIELD_MAX), Ok(FIELD_MAX));
    assert_eq!(values(&fields), [0, FIELD_MAX, 7]);
    for value in [FIELD_MAX + 1, 1 << 63, u64::MAX] {
        assert_eq!(fields.set(2, value), Err(CountError::ValueOutOfRange));
        assert_eq!(fields.set(3, value), Err(CountError::ValueOutOfRange));
    }
    for idx in [3, MAX_LEN, usize::MAX] {
        assert_eq!(fields.set(idx, 1), Err(CountError::IndexOutOfRange));
    }
    assert_eq!(values(&fields), [0, FIELD_MAX, 7]);
}

#[test]
fn increments_stop_at_the_bounds() {
    const MAX: i64 = FIELD_MAX as i64;
    // old, delta, new, saturated
    let table = [
        (0, 0, 0, false),
        (0, 1, 1, false),
        (0, -1, 0, true),
        (0, MAX, FIELD_MAX, false),
        (0, MAX + 1, FIELD_MAX, true),
        (0, i64::MAX, FIELD_MAX, true),
        (0, i64::MIN, 0, true),
        (1, -1, 0, false),
        (1, -2, 0, true),
        (1, MAX, FIELD_MAX, true),
        (255, 1, 256, false),
        (u64::from(u32::MAX), 1, 1 << 32, false),
        (1 << 32, -1, u64::from(u32::MAX), false),
        (FIELD_MAX - 1, 1, FIELD_MAX, false),
        (FIELD_MAX - 1, 2, FIELD_MAX, true),
        (FIELD_MAX, 0, FIELD_MAX, false),
        (FIELD_MAX, 1, FIELD_MAX, true),
        (FIELD_MAX, i64::MAX, FIELD_MAX, true),
        (FIELD_MAX, -MAX, 0, false),
        (FIELD_MAX, -MAX - 1, 0, true),
        (FIELD_MAX, i64::MIN, 0, true),
    ];
    for (old, delta, new, saturated) in table {
        let step = IncrResult {
            old,
            new,
            saturated,
        };
        let mut fields = with(&[3, old, 3]);
        assert_eq!(fields.incr(1, delta, Saturate), Ok(step), "{old} {delta:+}");
        assert_eq!(values(&fields), [3, new, 3]);

        let mut fields = with(&[3, old, 3]);
        if saturated {
            assert_eq!(
                fields.incr(1, delta, Fail),
                Err(CountError::Overflow),
                "{old} {delta:+}"
            );
            assert_eq!(values(&fields), [3, old, 3]);
        } else {
            assert_eq!(fields.incr(1, delta, Fail), Ok(step), "{old} {delta:+}");
            assert_eq!(values(&fields), [3, new, 3]);
        }
    }
}

#[test]
fn index_is_checked_before_overflow() {
    let mut fields = with(&[FIELD_MAX]);
    for idx in [1, MAX_LEN, usize::MAX] {
        assert_eq!(fields.incr(idx, 1, Fail), Err(CountError::IndexOutOfRange));
        assert_eq!(
            fields.incr(idx, 1, Saturate),
            Err(CountError::IndexOutOfRange)
        );
        let batch = fields.incr_all(&[(0, 1), (idx, 1)], Fail, &mut Vec::new());
        assert_eq!(batch, Err(CountError::IndexOutOfRange));
    }
    assert_eq!(values(&fields), [FIELD_MAX]);
}

#[test]
fn view_requires_whole_fields() {
    for len in 0..=26 {
        let bytes = vec![0xff; len];
        assert_eq!(
            Fields::from_bytes(&bytes).map(Fields::len),
            (len % 5 == 0).then_some(len / 5)
        );
    }
    let none = Fields::from_bytes(&[]).unwrap();
    assert!(none.is_empty());
    assert_eq!(none.get(0), None);
    assert_eq!(none.iter().len(), 0);
}

#[test]
fn from_bytes_requires_whole_fields_within_the_maximum_length() {
    let bytes = vec![0xab; 5 * MAX_LEN + 5];
    for len in [5, 10, 25, 5 * MAX_LEN] {
        let new = CountInt::from_bytes(&bytes[..len]).unwrap();
        assert_eq!(new.as_bytes(), &bytes[..len]);
    }
    for len in [
        0,
        1,
        4,
        6,
        24,
        5 * MAX_LEN - 1,
        5 * MAX_LEN + 1,
        5 * MAX_LEN + 5,
    ] {
        assert_eq!(
            CountInt::from_bytes(&bytes[..len]),
            Err(CountError::Payload),
            "{len}"
        );
    }
}

#[test]
fn resizing_copies_and_never_loses_a_counter() {
    let old = with(&[1, FIELD_MAX, 0, 0]);
    assert_eq!(
        old.resized(4).as_deref().map(values),
        Ok(vec![1, FIELD_MAX, 0, 0])
    );
    assert_eq!(
        old.resized(6).as_deref().map(values),
        Ok(vec![1, FIELD_MAX, 0, 0, 0, 0])
    );
    assert_eq!(
        old.resized(2).as_deref().map(values),
        Ok(vec![1, FIELD_MAX])
    );
    assert_eq!(old.resized(1), Err(CountError::FieldNotZero));
    assert_eq!(old.resized(MAX_LEN).unwrap().resized(2), old.resized(2));
    // Only the last byte of the last field is not 0.
    assert_eq!(with(&[0, 0, 1]).resized(2), Err(CountError::FieldNotZero));
    assert_eq!(
        with(&[0, 1 << 39, 0]).resized(1),
        Err(CountError::FieldNotZero)
    );
    assert_eq!(values(&old), [1, FIELD_MAX, 0, 0]);
}

#[test]
fn resizing_a_view_makes_an_owned_copy() {
    let nothing = Fields::from_bytes(&[]).unwrap();
    assert_eq!(nothing.resized(0), Err(CountError::Length));
    assert_eq!(nothing.resized(2), Ok(with(&[0, 0])));

    let mut bytes = vec![0; 5 * (MAX_LEN + 1)];
    bytes[4] = 3;
    let too_long = Fields::from_bytes(&bytes).unwrap();
    assert_eq!(too_long.resized(MAX_LEN + 1), Err(CountError::Length));
    assert_eq!(too_long.resized(2), Ok(with(&[3, 0])));
    bytes[5 * MAX_LEN] = 1;
    let too_long = Fields::from_bytes(&bytes).unwrap();
    assert_eq!(too_long.resized(MAX_LEN), Err(CountError::FieldNotZero));
}

#[test]
fn clones_are_independent() {
    let mut one = with(&[1, 2]);
    let two = one.clone();
    assert_eq!(one, two);
    one.fields_mut().set(0, 9).unwrap();
    assert_eq!(values(two.fields()), [1, 2]);
    assert_ne!(one, two);
    assert_ne!(with(&[0]), with(&[0, 0]));
    assert_eq!(format!("{one:?}"), "CountInt([9, 2])");
}

#[test]
fn objects_can_move_to_another_thread() {
    let sent = with(&[4, 5]);
    let back = std::thread::spawn(move || sent.resized(1).map_err(|e| (e, sent)))
        .join()
        .unwrap();
    assert_eq!(
        back.map_err(|(e, sent)| (e, values(&sent))),
        Err((CountError::FieldNotZero, vec![4, 5]))
    );
}

#[test]
fn raw_pointers_convert_back() {
    for len in [1, 5, MAX_LEN] {
        let p = CountInt::new(len).unwrap().into_raw();
        assert_eq!(p.align_offset(2), 0);
        // SAFETY: `p` is from into_raw and each borrow ends before the next one begins.
        unsafe {
            assert_eq!(CountInt::borrow_raw(p).len(), len);
            CountInt::borrow_raw_mut(p).set(len - 1, 77).unwrap();
            assert_eq!(CountInt::borrow_raw(p).get(len - 1), Some(77));
        }
        // SAFETY: `p` is from into_raw, is converted back once, and no borrow is left.
        let back = unsafe { CountInt::from_raw(p) };
        assert_eq!(back.get(len - 1), Some(77));
    }
}

#[test]
fn error_texts_are_those_of_the_commands() {
    let words = [
        (CountError::IndexOutOfRange, "index out of range"),
        (
            CountError::ValueOutOfRange,
            "value is not an integer or out of range",
        ),
        (CountError::Overflow, "increment would overflow"),
        (CountError::Length, "length must be between 1 and 65535"),
        (CountError::FieldNotZero, "field is not zero"),
        (CountError::Payload, "invalid payload"),
        (CountError::OutOfMemory, "out of memory"),
    ];
    for (error, text) in words {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn an_empty_batch_changes_nothing() {
    let mut fields = with(&[1]);
    let mut out = vec![42];
    let batch = fields.incr_all(&[], Fail, &mut out);
    assert_eq!(
        batch,
        Ok(BatchResult {
            changed: false,
            saturated: 0
        })
    );
    assert_eq!(out, []);
    assert_eq!(fields.set_all(&[]), Ok(false));
}
