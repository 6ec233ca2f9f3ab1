//! The body of a set in an RDB file: a sequence of blobs, each stored as a string.
//!
//! The first byte of a blob is its encoding. The rest are members of the set, at least one, all greater than those of the
//! blob before it:
//! - 1: LEB128 varints, the first member and then the differences less one;
//! - 2: the portable 64-bit Roaring format.
//!
//! Pages are saved in encoding 1, dense chunks in encoding 2. The loader accepts either encoding for any members.

use super::builder::Builder;
use super::error::SetError;
use super::nodes::NodeRef;
use super::portable::{Container, EMPTY_BYTES, Writer};
use super::portable_read::read_set;
use super::set::IdSet;

const VARINTS: u8 = 1;
const PORTABLE: u8 = 2;

/// The largest blob that is written.
const MAX_BLOB: usize = 1 << 20;
/// The longest varint.
const MAX_VARINT: usize = 10;

impl IdSet {
    /// Calls `emit` with the blobs of the set, each of 1 byte to 1 MB. [`BlobLoader`] reads them.
    pub fn save_blobs(&self, emit: &mut dyn FnMut(&[u8])) {
        let mut varints = VarintWriter::default();
        let mut writer = Writer::default();
        for node in self.nodes_from(0) {
            match node {
                NodeRef::Page(page) => {
                    emit_portable(&mut writer, emit);
                    page.iter().for_each(|m| varints.push(m, emit));
                }
                NodeRef::Dense(key, dense) => {
                    varints.emit(emit);
                    let container = Container::Dense(dense);
                    if 1 + writer.size_with(key, &container) > MAX_BLOB {
                        emit_portable(&mut writer, emit);
                    }
                    writer.push(key, &container);
                }
            }
        }
        varints.emit(emit);
        emit_portable(&mut writer, emit);
    }
}

/// Emits the containers of the writer, if any, as a blob.
fn emit_portable(writer: &mut Writer, emit: &mut dyn FnMut(&[u8])) {
    if writer.size() > EMPTY_BYTES {
        let mut blob = std::mem::take(writer).finish();
        blob.insert(0, PORTABLE);
        emit(&blob);
    }
}

/// Collects a blob of varints.
#[derive(Default)]
struct VarintWriter {
    blob: Vec<u8>,
    /// The smallest member that may come next.
    next: u64,
}

impl VarintWriter {
    fn push(&mut self, m: u64, emit: &mut dyn FnMut(&[u8])) {
        if self.blob.len() + MAX_VARINT > MAX_BLOB {
            self.emit(emit);
        }
        if self.blob.is_empty() {
            self.blob.push(VARINTS);
            self.next = 0;
        }
        write_varint(m - self.next, &mut self.blob);
        // Wraps after the largest id, which is the last member.
        self.next = m.wrapping_add(1);
    }

    fn emit(&mut self, emit: &mut dyn FnMut(&[u8])) {
        if !self.blob.is_empty() {
            emit(&self.blob);
            self.blob.clear();
        }
    }
}

fn write_varint(mut x: u64, out: &mut Vec<u8>) {
    while x >= 0x80 {
        out.push(x as u8 | 0x80);
        x >>= 7;
    }
    out.push(x as u8);
}

/// Loads a set from the blobs of [`IdSet::save_blobs`].
///
/// Allocates memory in proportion to the bytes received. The claimed cardinality is only validated at the end.
pub struct BlobLoader {
    cardinality: u64,
    set: Builder,
}

impl BlobLoader {
    /// A loader of a set with `cardinality` members.
    pub fn new(cardinality: u64) -> BlobLoader {
        BlobLoader {
            cardinality,
            set: Builder::default(),
        }
    }

    /// Loads the next blob. After an error the loader must not be used again.
    pub fn push(&mut self, blob: &[u8]) -> Result<(), SetError> {
        let before = self.set.len();
        match blob.split_first() {
            Some((&VARINTS, varints)) => self.push_varints(varints)?,
            Some((&PORTABLE, bytes)) => read_set(bytes, &mut self.set)?,
            _ => return Err(SetError::Payload),
        }
        if self.set.len() == before || self.set.len() > self.cardinality {
            return Err(SetError::Payload);
        }
        Ok(())
    }

    fn push_varints(&mut self, mut bytes: &[u8]) -> Result<(), SetError> {
        let mut next = Some(0u64);
        while !bytes.is_empty() {
            let step = read_varint(&mut bytes)?;
            let m = next
                .and_then(|next| next.checked_add(step))
                .ok_or(SetError::Payload)?;
            self.set.push(m)?;
            next = m.checked_add(1);
        }
        Ok(())
    }

    /// The set, if it has the claimed number of members, at least one.
    pub fn finish(self) -> Result<IdSet, SetError> {
        if self.set.len() == 0 || self.set.len() != self.cardinality {
            return Err(SetError::Payload);
        }
        self.set.finish()
    }
}

/// Reads a LEB128 varint of at most 64 bits, in its shortest form.
fn read_varint(bytes: &mut &[u8]) -> Result<u64, SetError> {
    let mut x = 0u64;
    for (i, &byte) in bytes.iter().enumerate().take(MAX_VARINT) {
        let bits = u64::from(byte & 0x7f);
        if i == MAX_VARINT - 1 && bits > 1 {
            return Err(SetError::Payload);
        }
        x |= bits << (7 * i);
        if byte < 0x80 {
            if byte == 0 && i > 0 {
                return Err(SetError::Payload);
            }
            *bytes = &bytes[i + 1..];
            return Ok(x);
        }
    }
    Err(SetError::Payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_a_full_blob_continue_in_the_next() {
        let members = || (0..400_000u64).map(|i| i << 30);
        let mut loader = BlobLoader::new(400_000);
        let (mut blobs, mut varints) = (0, VarintWriter::default());
        let mut emit = |blob: &[u8]| {
            assert!((2..=MAX_BLOB).contains(&blob.len()));
            loader.push(blob).unwrap();
            blobs += 1;
        };
        members().for_each(|m| varints.push(m, &mut emit));
        varints.emit(&mut emit);
        assert_eq!(blobs, 2);
        assert!(loader.finish().unwrap().iter().eq(members()));
    }
}
