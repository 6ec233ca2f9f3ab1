//! The stores to which batches are applied: a server, and a model of it.

use super::log::{FIELDS, KEYS};
use countint_tests::{Client, Value, args, reply};

/// A reader's aggregate for one key.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The key.
    pub key: usize,
    /// The idx of the fence.
    pub fence: usize,
    /// The offset of the first event.
    pub from: u64,
    /// The offset of the last event.
    pub to: u64,
    /// The increments.
    pub deltas: Vec<(usize, i64)>,
}

/// The connection to the server is lost.
#[derive(Debug)]
pub struct ConnectionLost;

/// Applies batches.
pub trait Store {
    /// Applies a batch and returns the previous value of the fence.
    fn apply(&mut self, batch: &Batch) -> Result<u64, ConnectionLost>;
}

/// A server.
impl Store for Client {
    fn apply(&mut self, batch: &Batch) -> Result<u64, ConnectionLost> {
        let mut call = args!["CINT.APPLY", name(batch.key)].to_vec();
        call.extend(args![batch.fence, batch.from, batch.to, "LEN", FIELDS]);
        for (idx, delta) in &batch.deltas {
            call.extend(args![idx, delta]);
        }
        match self.try_call(&call) {
            Ok(Value::Int(fence)) => Ok(fence as u64),
            Ok(other) => panic!("{batch:?}: {}", reply::format(&other)),
            Err(_) => Err(ConnectionLost),
        }
    }
}

/// A key's name.
pub fn name(key: usize) -> String {
    format!("n:{key}")
}

/// A key's fields on a server; zeros if it is missing.
pub fn fields(client: &mut Client, key: usize) -> [u64; FIELDS] {
    let mut fields = [0; FIELDS];
    match client.call(&args!["CINT.DUMP", name(key)]) {
        Value::Nil => {}
        dump => {
            let dump = reply::array(dump).into_iter().map(reply::int);
            fields.iter_mut().zip(dump).for_each(|(f, n)| *f = n as u64);
        }
    }
    fields
}

/// A model of `CINT.APPLY`.
#[derive(Default)]
pub struct Model {
    keys: [[u64; FIELDS]; KEYS],
}

impl Model {
    /// A key's fields.
    pub fn fields(&self, key: usize) -> [u64; FIELDS] {
        self.keys[key]
    }
}

impl Store for Model {
    fn apply(&mut self, batch: &Batch) -> Result<u64, ConnectionLost> {
        let fields = &mut self.keys[batch.key];
        let next = fields[batch.fence];
        if next <= batch.from {
            for &(idx, delta) in &batch.deltas {
                let sum = i128::from(fields[idx]) + i128::from(delta);
                fields[idx] = sum.clamp(0, (1 << 40) - 1) as u64;
            }
            fields[batch.fence] = batch.to + 1;
        }
        Ok(next)
    }
}
