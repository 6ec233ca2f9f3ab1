//! CountInt behaves as a simple model: a `Vec<u64>` that is cloned before operations that can fail.

use countint_core::countint::{CountError, CountInt, FIELD_MAX, Fields, MAX_LEN, Overflow};
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Op {
    Set(usize, u64),
    Incr(usize, i64, Overflow),
    SetAll(Vec<(usize, u64)>),
    IncrAll(Vec<(usize, i64)>, Overflow),
    Resize(usize),
    Reload,
}

/// The model. Its sums cannot wrap.
struct Model(Vec<u64>);

impl Model {
    fn set(&mut self, idx: usize, value: u64) -> Result<u64, CountError> {
        if value > FIELD_MAX {
            return Err(CountError::ValueOutOfRange);
        }
        let field = self.0.get_mut(idx).ok_or(CountError::IndexOutOfRange)?;
        Ok(std::mem::replace(field, value))
    }

    /// The value before, the value after, and whether the increment saturated.
    fn incr(
        &mut self,
        idx: usize,
        delta: i64,
        o: Overflow,
    ) -> Result<(u64, u64, bool), CountError> {
        let field = self.0.get_mut(idx).ok_or(CountError::IndexOutOfRange)?;
        let old = *field;
        let exact = i128::from(old) + i128::from(delta);
        let new = exact.clamp(0, i128::from(FIELD_MAX));
        if new != exact && o == Overflow::Fail {
            return Err(CountError::Overflow);
        }
        *field = u64::try_from(new).expect("clamped");
        Ok((old, *field, new != exact))
    }

    /// The values after each increment, whether anything changed, and how many increments saturated.
    fn incr_all(
        &mut self,
        ops: &[(usize, i64)],
        o: Overflow,
    ) -> Result<(Vec<u64>, bool, u64), CountError> {
        if ops.iter().any(|&(idx, _)| idx >= self.0.len()) {
            return Err(CountError::IndexOutOfRange);
        }
        let mut trial = Model(self.0.clone());
        let (mut values, mut saturated) = (Vec::new(), 0);
        for &(idx, delta) in ops {
            let (_, new, cut) = trial.incr(idx, delta, o)?;
            values.push(new);
            saturated += u64::from(cut);
        }
        let changed = trial.0 != self.0;
        self.0 = trial.0;
        Ok((values, changed, saturated))
    }

    fn set_all(&mut self, ops: &[(usize, u64)]) -> Result<bool, CountError> {
        if ops.iter().any(|&(_, value)| value > FIELD_MAX) {
            return Err(CountError::ValueOutOfRange);
        }
        let mut trial = Model(self.0.clone());
        for &(idx, value) in ops {
            trial.set(idx, value)?;
        }
        let changed = trial.0 != self.0;
        self.0 = trial.0;
        Ok(changed)
    }

    fn resize(&mut self, len: usize) -> Result<(), CountError> {
        if !(1..=MAX_LEN).contains(&len) {
            return Err(CountError::Length);
        }
        if self.0.iter().skip(len).any(|&value| value != 0) {
            return Err(CountError::FieldNotZero);
        }
        self.0.resize(len, 0);
        Ok(())
    }

    /// The fields, written bit by bit, the highest bit first.
    fn bits(&self) -> Vec<u8> {
        let bits: Vec<u8> = self
            .0
            .iter()
            .flat_map(|value| (0..40).rev().map(move |bit| (value >> bit & 1) as u8))
            .collect();
        bits.chunks(8)
            .map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | bit))
            .collect()
    }
}

fn overflow() -> impl Strategy<Value = Overflow> {
    prop_oneof![Just(Overflow::Saturate), Just(Overflow::Fail)]
}

/// Mostly within a short object, often repeated, sometimes far out of range.
fn index() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..3_usize, 8 => 0..12_usize, 2 => 60..70_usize, 1 => 0..=MAX_LEN, 1 => Just(usize::MAX)]
}

fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0..4_u64,
        3 => FIELD_MAX - 3..=FIELD_MAX,
        3 => 0..=FIELD_MAX,
        1 => FIELD_MAX + 1..=FIELD_MAX + 2,
        1 => any::<u64>(),
    ]
}

fn delta() -> impl Strategy<Value = i64> {
    const MAX: i64 = FIELD_MAX as i64;
    prop_oneof![
        8 => -3..4_i64,
        2 => -MAX - 1..=MAX + 1,
        1 => Just(MAX), 1 => Just(-MAX),
        1 => any::<i64>(), 1 => Just(i64::MIN), 1 => Just(i64::MAX),
    ]
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![20 => 1..12_usize, 8 => 60..70_usize, 1 => 0..=MAX_LEN + 1, 1 => Just(MAX_LEN)]
}

/// A batch of valid indexes, except that one may be replaced with any index.
fn pairs<T: std::fmt::Debug + Clone>(
    second: impl Strategy<Value = T> + Clone,
) -> impl Strategy<Value = Vec<(usize, T)>> {
    prop_oneof![
        6 => vec((0..3_usize, second.clone()), 0..24),
        1 => vec((index(), second), 0..24),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    // Small deltas, so that batches also succeed under Fail.
    let deltas = || prop_oneof![4 => pairs(-3..4_i64), 1 => pairs(prop_oneof![delta()].boxed())];
    let values = || prop_oneof![4 => pairs(0..3_u64), 1 => pairs(value().boxed())];
    prop_oneof![
        3 => (index(), value()).prop_map(|(idx, value)| Op::Set(idx, value)),
        4 => (index(), delta(), overflow()).prop_map(|(idx, delta, o)| Op::Incr(idx, delta, o)),
        4 => values().prop_map(Op::SetAll),
        8 => (deltas(), overflow()).prop_map(|(ops, o)| Op::IncrAll(ops, o)),
        2 => length().prop_map(Op::Resize),
        1 => Just(Op::Reload),
    ]
}

fn check(fields: &mut CountInt, model: &mut Model, op: Op) {
    match op {
        Op::Set(idx, value) => assert_eq!(fields.set(idx, value), model.set(idx, value)),
        Op::Incr(idx, delta, o) => {
            let step = fields
                .incr(idx, delta, o)
                .map(|step| (step.old, step.new, step.saturated));
            assert_eq!(step, model.incr(idx, delta, o));
        }
        Op::SetAll(ops) => assert_eq!(fields.set_all(&ops), model.set_all(&ops)),
        Op::IncrAll(ops, o) => {
            let mut out = vec![u64::MAX; 2];
            let batch = fields
                .incr_all(&ops, o, &mut out)
                .map(|batch| (batch.changed, batch.saturated));
            let expected = model.incr_all(&ops, o);
            assert_eq!(
                out,
                expected
                    .as_ref()
                    .map_or(vec![], |(values, ..)| values.clone())
            );
            assert_eq!(
                batch,
                expected.map(|(_, changed, saturated)| (changed, saturated))
            );
        }
        Op::Resize(len) => {
            let resized = fields.resized(len);
            assert_eq!(resized.as_ref().err().copied(), model.resize(len).err());
            if let Ok(resized) = resized {
                *fields = resized;
            }
        }
        Op::Reload => *fields = CountInt::from_bytes(fields.as_bytes()).expect("valid bytes"),
    }
}

proptest! {
    #[test]
    fn any_sequence_of_calls_behaves_as_the_model(start in length(), ops in vec(op(), 1..60)) {
        let len = start.clamp(1, MAX_LEN);
        let mut model = Model(vec![0; len]);
        let mut fields = CountInt::new(len).unwrap();
        for op in ops {
            let shown = format!("{op:?}");
            check(&mut fields, &mut model, op);
            prop_assert!(fields.iter().eq(model.0.iter().copied()), "after {}", shown);
        }
        prop_assert_eq!(fields.as_bytes(), model.bits());
    }

    #[test]
    fn batch_equals_its_increments_one_by_one(
        start in vec(0..=FIELD_MAX, 1..80), ops in pairs(delta().boxed()), o in overflow(),
    ) {
        let ops: Vec<_> = ops.into_iter().map(|(idx, delta)| (idx % start.len(), delta)).collect();
        let mut fields = CountInt::from_bytes(&Model(start).bits()).unwrap();
        let before = fields.clone();

        let mut single = fields.clone();
        let steps: Result<Vec<_>, _> = ops.iter().map(|&(idx, delta)| single.incr(idx, delta, o)).collect();
        let mut out = Vec::new();
        let batch = fields.incr_all(&ops, o, &mut out);
        match steps {
            Ok(steps) => {
                let batch = batch.unwrap();
                prop_assert_eq!(out, steps.iter().map(|step| step.new).collect::<Vec<_>>());
                prop_assert_eq!(batch.saturated, steps.iter().filter(|step| step.saturated).count() as u64);
                prop_assert_eq!(batch.changed, single != before);
                prop_assert_eq!(fields, single);
            }
            Err(error) => {
                prop_assert_eq!(batch, Err(error));
                prop_assert_eq!(fields, before);
            }
        }
    }

    #[test]
    fn bytes_equal_those_of_a_big_endian_bit_writer(values in vec(0..=FIELD_MAX, 1..200)) {
        let model = Model(values);
        let mut fields = CountInt::new(model.0.len()).unwrap();
        for (idx, &value) in model.0.iter().enumerate() {
            fields.set(idx, value).unwrap();
        }
        prop_assert_eq!(fields.as_bytes(), model.bits());
    }

    #[test]
    fn any_whole_fields_are_valid_and_round_trip(bytes in vec(any::<u8>(), 0..400)) {
        match Fields::from_bytes(&bytes) {
            None => prop_assert!(bytes.len() % 5 != 0),
            Some(fields) => {
                prop_assert_eq!(fields.as_bytes(), &bytes[..]);
                prop_assert_eq!(Model(fields.iter().collect()).bits(), bytes);
            }
        }
    }
}
