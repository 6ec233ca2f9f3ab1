//! Tables behave as a simple model, a `BTreeMap` of rows. Pages are so small that every few calls widen, narrow, split or
//! merge some.

use countint_core::countint::{CountError, FIELD_MAX, MAX_LEN, Overflow};
use countint_core::counttab::{BlobLoader, CountTab, ImportError, RowIncrement, read_pairs};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
enum Act {
    Incr(u64, usize, i64, Overflow),
    Set(u64, Vec<(usize, u64)>),
    IncrAll(Vec<(u64, usize, i64)>, Overflow),
    Remove(u64),
    /// Removes every row in a range, so that pages are merged.
    RemoveRange(u64, u64),
    /// Consecutive ids.
    Fill(u64, u8, u64),
    Resize(usize),
    Scan(u64, usize),
    /// Moves the rows of a range to another table and back.
    Move(u64, u64),
    Reload,
    Defrag,
    Fence(u16, u64),
}

#[derive(Clone, Default)]
struct Model {
    len: usize,
    rows: BTreeMap<u64, Vec<u64>>,
    fences: BTreeMap<u16, u64>,
}

fn step(old: u64, delta: i64) -> (u64, bool) {
    let exact = i128::from(old) + i128::from(delta);
    let new = exact.clamp(0, i128::from(FIELD_MAX));
    (u64::try_from(new).expect("clamped"), new != exact)
}

impl Model {
    fn row(&mut self, id: u64) -> &mut Vec<u64> {
        let len = self.len;
        self.rows.entry(id).or_insert_with(|| vec![0; len])
    }

    fn incr_all(
        &mut self,
        ops: &[(u64, usize, i64)],
        o: Overflow,
    ) -> Result<(Vec<u64>, bool, u64), CountError> {
        if ops.iter().any(|&(_, idx, _)| idx >= self.len) {
            return Err(CountError::IndexOutOfRange);
        }
        let mut trial = self.clone();
        let (mut values, mut saturated) = (Vec::new(), 0);
        for &(id, idx, delta) in ops {
            let field = &mut trial.row(id)[idx];
            let (new, clamped) = step(*field, delta);
            if clamped && o == Overflow::Fail {
                return Err(CountError::Overflow);
            }
            *field = new;
            values.push(new);
            saturated += u64::from(clamped);
        }
        let changed = trial.rows != self.rows;
        self.rows = trial.rows;
        Ok((values, changed, saturated))
    }

    fn set(&mut self, id: u64, fields: &[(usize, u64)]) -> Result<bool, CountError> {
        if fields.iter().any(|&(_, value)| value > FIELD_MAX) {
            return Err(CountError::ValueOutOfRange);
        }
        if fields.iter().any(|&(idx, _)| idx >= self.len) {
            return Err(CountError::IndexOutOfRange);
        }
        let before = self.rows.get(&id).cloned();
        for &(idx, value) in fields {
            self.row(id)[idx] = value;
        }
        Ok(self.rows.get(&id) != before.as_ref())
    }

    fn resize(&mut self, len: usize) -> Result<bool, CountError> {
        if !(1..=MAX_LEN).contains(&len) {
            return Err(CountError::Length);
        }
        if self
            .rows
            .values()
            .flat_map(|row| row.iter().skip(len))
            .any(|&value| value != 0)
        {
            return Err(CountError::FieldNotZero);
        }
        self.rows.values_mut().for_each(|row| row.resize(len, 0));
        Ok(std::mem::replace(&mut self.len, len) != len)
    }
}

fn id() -> impl Strategy<Value = u64> {
    prop_oneof![
        10 => 0..40_u64,
        4 => (0..20_u64).prop_map(|i| 1_000_000 + i * 1000),
        2 => any::<u64>(),
        2 => (0..6_u64).prop_map(|i| u64::MAX - i),
    ]
}

fn idx() -> impl Strategy<Value = usize> {
    prop_oneof![20 => 0..5_usize, 4 => 5..12_usize, 2 => 60..200_usize, 1 => Just(usize::MAX)]
}

fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        5 => 0..4_u64,
        4 => (0..41_u32).prop_map(|bits| (1u64 << bits) - 1),
        2 => 0..=FIELD_MAX,
        1 => Just(FIELD_MAX + 1),
    ]
}

fn delta() -> impl Strategy<Value = i64> {
    prop_oneof![
        8 => -3..4_i64,
        3 => (0..42_u32).prop_map(|bits| 1i64 << bits),
        3 => (0..42_u32).prop_map(|bits| -(1i64 << bits)),
        1 => Just(i64::MIN), 1 => Just(i64::MAX),
    ]
}

fn overflow() -> impl Strategy<Value = Overflow> {
    prop_oneof![4 => Just(Overflow::Saturate), 1 => Just(Overflow::Fail)]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => (id(), idx(), delta(), overflow()).prop_map(|(id, idx, delta, o)| Act::Incr(id, idx, delta, o)),
        8 => (id(), vec((idx(), value()), 1..6)).prop_map(|(id, fields)| Act::Set(id, fields)),
        6 => (vec((id(), idx(), delta()), 0..20), overflow()).prop_map(|(ops, o)| Act::IncrAll(ops, o)),
        8 => id().prop_map(Act::Remove),
        1 => (id(), 0..30_u64).prop_map(|(id, more)| Act::RemoveRange(id, id.saturating_add(more))),
        2 => (id(), any::<u8>(), value()).prop_map(|(id, n, value)| Act::Fill(id, n % 40, value)),
        2 => prop_oneof![6 => 1..13_usize, 2 => 60..200_usize, 1 => Just(0), 1 => Just(MAX_LEN + 1)].prop_map(Act::Resize),
        2 => (id(), 0..30_usize).prop_map(|(from, limit)| Act::Scan(from, limit)),
        2 => (id(), id()).prop_map(|(min, max)| Act::Move(min, max)),
        1 => Just(Act::Reload),
        1 => Just(Act::Defrag),
        1 => (prop_oneof![0..3_u16, Just(65_534)], prop_oneof![Just(0), 0..=FIELD_MAX]).prop_map(|(source, next)| Act::Fence(source, next)),
    ]
}

fn reloaded(table: &CountTab) -> CountTab {
    let mut loader = BlobLoader::new(table.len() as u64, table.rows(), &table.save_fences())
        .expect("a valid header");
    table.save_blobs(&mut |blob| loader.push(blob).expect("a valid blob"));
    loader.finish().expect("the claimed number of rows")
}

/// Moves a range to a new table and back. Importing existing rows fails.
fn moved(table: &mut CountTab, min: u64, max: u64) {
    let bytes = table.export(min, max, usize::MAX).expect("no size limit");
    let part = CountTab::from_export(&bytes).expect("a valid export");
    part.validate().expect("a valid table");
    let mut ids = Vec::new();
    part.scan(0, usize::MAX >> 1, &mut ids);
    assert!(ids.iter().all(|id| (min..=max).contains(id)));
    if !ids.is_empty() {
        assert_eq!(table.absorb(part.clone()), Err(ImportError::Exists));
    }
    for &id in &ids {
        assert!(table.remove(id));
    }
    table.validate().expect("a valid table");
    let fences = part.fences().len() > 0;
    assert_eq!(table.absorb(part), Ok(!ids.is_empty()), "{fences}");
}

fn run(table: &mut CountTab, model: &mut Model, act: &Act) {
    match act {
        &Act::Incr(id, idx, delta, o) => {
            let created = !model.rows.contains_key(&id);
            let old = model
                .rows
                .get(&id)
                .and_then(|row| row.get(idx))
                .copied()
                .unwrap_or(0);
            let expected = model.incr_all(&[(id, idx, delta)], o);
            match (table.incr(id, idx, delta, o), expected) {
                (Ok(got), Ok((values, _, saturated))) => {
                    assert_eq!((got.counter.old, got.counter.new), (old, values[0]));
                    assert_eq!(
                        (got.created, u64::from(got.counter.saturated)),
                        (created, saturated)
                    );
                }
                (got, expected) => assert_eq!(got.err(), expected.err()),
            }
        }
        Act::Set(id, fields) => assert_eq!(table.set(*id, fields), model.set(*id, fields)),
        Act::IncrAll(ops, o) => {
            let mut out = vec![9];
            let list: Vec<RowIncrement> = ops
                .iter()
                .map(|&(id, idx, delta)| RowIncrement { id, idx, delta })
                .collect();
            let got = table.incr_all(&list, *o, &mut out);
            let got = got.map(|changes| (out.clone(), changes.changed, changes.saturated));
            if got.is_err() {
                assert!(out.is_empty());
            }
            assert_eq!(got, model.incr_all(ops, *o));
        }
        Act::Remove(id) => assert_eq!(table.remove(*id), model.rows.remove(id).is_some()),
        &Act::RemoveRange(min, max) => {
            let ids: Vec<u64> = model.rows.range(min..=max).map(|(&id, _)| id).collect();
            for id in ids {
                model.rows.remove(&id);
                assert!(table.remove(id));
            }
        }
        &Act::Fill(first, count, value) => {
            for id in (0..u64::from(count)).map_while(|i| first.checked_add(i)) {
                assert_eq!(table.set(id, &[(0, value)]), model.set(id, &[(0, value)]));
            }
        }
        &Act::Resize(len) => assert_eq!(table.resize(len), model.resize(len)),
        &Act::Scan(from, limit) => {
            let mut ids = vec![7];
            table.scan(from, limit, &mut ids);
            let expected = model.rows.range(from..).map(|(&id, _)| id).take(limit);
            assert!(ids[1..].iter().copied().eq(expected));
        }
        &Act::Move(min, max) => moved(table, min, max),
        Act::Reload => *table = reloaded(table),
        Act::Defrag => {
            let mut cursor = Some(0);
            while let Some(at) = cursor {
                cursor = table.defrag_step(at);
                assert!(cursor.is_none_or(|next| next > at));
            }
        }
        &Act::Fence(source, next) => {
            table.set_fence(source, next);
            model.fences.insert(source, next);
            model.fences.retain(|_, next| *next != 0);
        }
    }
}

fn compare(table: &CountTab, model: &Model) {
    table.validate().expect("a valid table");
    assert_eq!(
        (table.len(), table.rows()),
        (model.len, model.rows.len() as u64)
    );
    assert!(
        table
            .fences()
            .eq(model.fences.iter().map(|(&source, &next)| (source, next)))
    );
    let mut packed = Vec::new();
    for (&id, row) in &model.rows {
        let mut fields = Vec::new();
        assert!(table.read(id, |value| fields.push(value)));
        assert_eq!(fields, *row, "row {id}");
        assert_eq!(table.get(id, model.len - 1), Ok(row.last().copied()));
        packed.clear();
        table.read_packed(&[id], model.len + 1, &mut packed);
        let values = packed.chunks(5).map(|field| {
            field
                .iter()
                .fold(0, |sum, &byte| sum << 8 | u64::from(byte))
        });
        assert!(values.eq(row.iter().copied().chain([0])));
    }
    let ids: Vec<u64> = model.rows.keys().flat_map(|&id| [id, id ^ 1]).collect();
    let (mut one, mut all) = (Vec::new(), Vec::new());
    ids.iter()
        .for_each(|&id| table.read_packed(&[id], 3, &mut one));
    table.read_packed(&ids, 3, &mut all);
    assert_eq!(one, all);
    let mut pairs = Vec::new();
    read_pairs(ids.iter().map(|&id| (Some(table), id)), 3, &mut pairs);
    assert_eq!(pairs, all);
    assert_eq!(table.get(0, model.len), Err(CountError::IndexOutOfRange));
    let mut rows = model.rows.iter();
    table.for_each_row(|id, fields| {
        let (expected, row) = rows.next().expect("a row of the model");
        let nonzero = row.iter().copied().enumerate().filter(|field| field.1 > 0);
        assert_eq!(id, *expected);
        assert!(fields.iter().copied().eq(nonzero), "row {id}");
    });
    assert_eq!(rows.next(), None);
    let absent = (0..50).find(|id| !model.rows.contains_key(id));
    if let Some(id) = absent {
        assert!(!table.contains(id) && !table.read(id, |_| ()));
        assert_eq!(table.get(id, 0), Ok(None));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_calls_behaves_as_the_model(len in 1..8_usize, page_rows in 0..6_u8, acts in vec(act(), 1..120)) {
        let mut table = CountTab::with_page_rows(len, page_rows).expect("a valid length");
        let mut model = Model { len, ..Model::default() };
        for act in &acts {
            run(&mut table, &mut model, act);
            table.validate().expect("a valid table");
        }
        compare(&table, &model);
        let copy = table.clone();
        prop_assert!(copy == table);
        compare(&reloaded(&table), &model);
    }

    /// A damaged payload is an error or a valid table.
    #[test]
    fn damaged_exports_and_blobs_are_errors_or_valid_tables(
        acts in vec(act(), 1..60), cut in any::<u16>(), flips in vec((any::<u32>(), any::<u8>()), 1..4),
    ) {
        let mut table = CountTab::new(5).expect("a valid length");
        let mut model = Model { len: 5, ..Model::default() };
        acts.iter().for_each(|act| run(&mut table, &mut model, act));
        let mut bytes = table.export(0, u64::MAX, usize::MAX).expect("no size limit");
        for &(at, xor) in &flips {
            let at = at as usize % bytes.len();
            bytes[at] ^= xor;
        }
        if flips.len() == 1 && flips[0].1 != 0 {
            prop_assert_eq!(CountTab::from_export(&bytes).err(), Some(ImportError::Payload));
        }
        let cut = usize::from(cut) % bytes.len();
        prop_assert_eq!(CountTab::from_export(&bytes[..cut]).err(), Some(ImportError::Payload));
        let mut loader = BlobLoader::new(5, table.rows(), &table.save_fences()).expect("a valid header");
        let mut sound = true;
        table.save_blobs(&mut |blob| {
            let mut blob = blob.to_vec();
            for &(at, xor) in &flips {
                let at = at as usize % blob.len();
                blob[at] ^= xor;
            }
            sound &= sound && loader.push(&blob).is_ok();
        });
        if let Some(table) = loader.finish().ok().filter(|_| sound) {
            table.validate().expect("an accepted payload is a valid table");
        }
    }
}
