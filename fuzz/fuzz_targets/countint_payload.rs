//! The decoder of a CountInt, and any sequence of calls on the result, agree with a `Vec<u64>`.
#![no_main]

use arbitrary::Arbitrary;
use countint_core::countint::{CountInt, FIELD_BYTES, FIELD_MAX, MAX_LEN, Overflow};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Call {
    Set(u16, u64),
    Incr(u16, i64, bool),
    Batch(Vec<(u16, i64)>, bool),
    Resize(u16),
}

/// The saturated sum, and whether it saturated.
fn step(value: u64, delta: i64) -> (u64, bool) {
    let sum = i128::from(value) + i128::from(delta);
    let clamped = sum.clamp(0, FIELD_MAX.into());
    (clamped as u64, clamped != sum)
}

/// Applies a batch to a copy of the model; `None` if it must fail.
fn batch(model: &[u64], ops: &[(usize, i64)], fail: bool) -> Option<Vec<u64>> {
    let mut model = model.to_vec();
    for &(idx, delta) in ops {
        let (value, saturated) = step(*model.get(idx)?, delta);
        if saturated && fail {
            return None;
        }
        model[idx] = value;
    }
    Some(model)
}

fn apply(call: Call, object: &mut CountInt, model: &mut Vec<u64>) {
    let mode = |fail| {
        if fail {
            Overflow::Fail
        } else {
            Overflow::Saturate
        }
    };
    match call {
        Call::Set(idx, value) => {
            let idx = usize::from(idx);
            let fits = idx < model.len() && value <= FIELD_MAX;
            let old = object.fields_mut().set(idx, value);
            assert_eq!(old.is_ok(), fits);
            if fits {
                assert_eq!(old.ok(), Some(std::mem::replace(&mut model[idx], value)));
            }
        }
        Call::Incr(idx, delta, fail) => {
            let idx = usize::from(idx);
            let done = object.fields_mut().incr(idx, delta, mode(fail));
            let after = batch(model, &[(idx, delta)], fail);
            assert_eq!(done.is_ok(), after.is_some());
            if let (Ok(done), Some(after)) = (done, after) {
                assert_eq!((done.old, done.new), (model[idx], after[idx]));
                *model = after;
            }
        }
        Call::Batch(ops, fail) => {
            let ops: Vec<(usize, i64)> = ops
                .into_iter()
                .map(|(idx, delta)| (idx.into(), delta))
                .collect();
            let done = object
                .fields_mut()
                .incr_all(&ops, mode(fail), &mut Vec::new());
            let after = batch(model, &ops, fail);
            assert_eq!(done.is_ok(), after.is_some());
            if let (Ok(done), Some(after)) = (done, after) {
                assert_eq!(done.changed, *model != after);
                *model = after;
            }
        }
        Call::Resize(len) => {
            let len = usize::from(len);
            let fits = len > 0 && model.iter().skip(len).all(|&value| value == 0);
            let other = object.resized(len);
            assert_eq!(other.is_ok(), fits);
            if let Ok(other) = other {
                *object = other;
                model.resize(len, 0);
            }
        }
    }
}

fuzz_target!(|input: (Vec<u8>, Vec<Call>)| {
    let (bytes, calls) = input;
    let object = CountInt::from_bytes(&bytes);
    let fits =
        !bytes.is_empty() && bytes.len() % FIELD_BYTES == 0 && bytes.len() <= FIELD_BYTES * MAX_LEN;
    assert_eq!(object.is_ok(), fits);
    let Ok(mut object) = object else { return };
    assert_eq!(object.fields().as_bytes(), bytes);
    let mut model: Vec<u64> = object.fields().iter().collect();
    for call in calls {
        apply(call, &mut object, &mut model);
    }
    assert!(object.fields().iter().eq(model));
});
