//! The body of a set in an RDB file: a series of blobs (each a string of its own there).
//!
//! The first byte of a blob is its form, the rest some members of the set, at least one, all greater than those of the
//! blob before it:
//! - 1: LEB128 varints, the first member and then the differences less one;
//! - 2: the portable 64-bit Roaring format.
//!
//! Form 1 is for few members and for ids so sparse that a container each would cost more.

use super::builder::Builder;
use super::portable::{EMPTY_BYTES, Piece, Writer, pieces};
use super::portable_read::read_set;
use super::roaring::{Roaring, join};
use super::{IdSet, Repr, SetError};

const VARINTS: u8 = 1;
const PORTABLE: u8 = 2;

/// No blob that is written is longer.
const MAX_BLOB: usize = 1 << 20;
/// The longest varint.
const MAX_VARINT: usize = 10;

impl IdSet {
    /// Calls `emit` with the blobs of the set, each of 1 byte to 1 MB. [`BlobLoader`] reads them.
    pub fn save_blobs(&self, emit: &mut dyn FnMut(&[u8])) {
        match &self.0 {
            Repr::Compact(c) => save_varints(c.iter(), emit),
            Repr::Roaring(r) => save_blocks(r, emit),
        }
    }
}

fn save_varints(members: impl Iterator<Item = u64>, emit: &mut dyn FnMut(&[u8])) {
    let mut blob = vec![VARINTS];
    let mut next = 0;
    for m in members {
        if blob.len() + MAX_VARINT > MAX_BLOB {
            emit(&blob);
            blob.truncate(1);
            next = 0;
        }
        push_varint(m - next, &mut blob);
        // After the last id there is no next one.
        next = m.wrapping_add(1);
    }
    if blob.len() > 1 {
        emit(&blob);
    }
}

fn push_varint(mut x: u64, out: &mut Vec<u8>) {
    while x >= 0x80 {
        out.push(x as u8 | 0x80);
        x >>= 7;
    }
    out.push(x as u8);
}

/// Cuts the set where a portable blob would be full, and writes each part in the form that suits it.
fn save_blocks(set: &Roaring, emit: &mut dyn FnMut(&[u8])) {
    let mut part: Vec<Piece<'_>> = Vec::new();
    let (mut portable, mut varints) = (1 + EMPTY_BYTES, 0);
    for piece in pieces(set, 0, u64::MAX) {
        if portable + piece.cost(part.last().map(Piece::half)) > MAX_BLOB {
            save_part(&mut part, portable, varints, emit);
            (portable, varints) = (1 + EMPTY_BYTES, 0);
        }
        let last = part.last();
        portable += piece.cost(last.map(Piece::half));
        varints += varint_cost(
            piece.key - last.map_or(0, |last| last.key),
            piece.block.len(),
        );
        part.push(piece);
    }
    save_part(&mut part, portable, varints, emit);
}

/// About the bytes of the varints of `len` members of a block that is `gap` blocks after the last.
fn varint_cost(gap: u64, len: u64) -> usize {
    let first = (64 - (gap << 16).leading_zeros() as usize)
        .div_ceil(7)
        .max(1);
    // By the mean distance of the members.
    let each = match 65_536 / len {
        0..128 => 1,
        128..16_384 => 2,
        _ => 3,
    };
    first + each * (len - 1) as usize
}

/// Varints only where they save half: a container is faster to load.
fn save_part(
    part: &mut Vec<Piece<'_>>,
    portable: usize,
    varints: usize,
    emit: &mut dyn FnMut(&[u8]),
) {
    if part.is_empty() {
        return;
    }
    if 2 * varints <= portable {
        let members = part
            .iter()
            .flat_map(|piece| piece.block.iter().map(|low| join(piece.key, low)));
        save_varints(members, emit);
        part.clear();
    } else {
        let mut writer = Writer::default();
        part.drain(..).for_each(|piece| writer.push(piece));
        let mut blob = writer.finish();
        blob.insert(0, PORTABLE);
        emit(&blob);
    }
}

/// Makes a set of the blobs of [`IdSet::save_blobs`].
///
/// What it allocates is in proportion to the bytes that it is given; the stated cardinality is only compared.
pub struct BlobLoader {
    cardinality: u64,
    set: Builder,
}

impl BlobLoader {
    /// A loader of a set that is said to have `cardinality` members.
    pub fn new(cardinality: u64) -> BlobLoader {
        BlobLoader {
            cardinality,
            set: Builder::default(),
        }
    }

    /// Takes the next blob. After an error the loader is of no more use.
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
            let step = take_varint(&mut bytes)?;
            let m = next
                .and_then(|next| next.checked_add(step))
                .ok_or(SetError::Payload)?;
            self.set.push(m)?;
            next = m.checked_add(1);
        }
        Ok(())
    }

    /// The set, if it has members and as many as was said.
    pub fn finish(self) -> Result<IdSet, SetError> {
        if self.set.len() == 0 || self.set.len() != self.cardinality {
            return Err(SetError::Payload);
        }
        Ok(IdSet(self.set.finish()))
    }
}

/// The varint at the beginning, in its shortest form and of at most 64 bits.
fn take_varint(bytes: &mut &[u8]) -> Result<u64, SetError> {
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
    fn varints_are_cut_where_a_blob_is_full() {
        let members = || (0..400_000u64).map(|i| i << 30);
        let mut loader = BlobLoader::new(400_000);
        let mut blobs = 0;
        save_varints(members(), &mut |blob| {
            assert!((2..=MAX_BLOB).contains(&blob.len()));
            loader.push(blob).unwrap();
            blobs += 1;
        });
        assert_eq!(blobs, 2);
        assert!(loader.finish().unwrap().iter().eq(members()));
    }
}
