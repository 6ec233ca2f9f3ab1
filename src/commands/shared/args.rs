//! Arguments of the module's commands.

use std::ops::Range;

use countint_core::countint::{FIELD_MAX, MAX_LEN};

use super::buffers;
use crate::error::Error;
use crate::scratch::Scratch;
use crate::server::Call;

/// The largest offset of a log: the fence after it still fits a field.
const OFFSET_MAX: u64 = FIELD_MAX - 1;

impl Call<'_> {
    /// Argument `i` as an idx. An idx that no object can have becomes `usize::MAX`, which fails the later range check.
    #[inline]
    pub fn idx(&self, i: usize) -> Result<usize, Error> {
        self.int(i)
            .map(|n| usize::try_from(n).unwrap_or(usize::MAX))
    }

    /// Argument `i` as a number of counters, 1 to 65535.
    pub fn length(&self, i: usize) -> Result<usize, Error> {
        usize::try_from(self.int(i)?)
            .ok()
            .filter(|len| (1..=MAX_LEN).contains(len))
            .ok_or(Error::Length)
    }

    /// Argument `i` as the value of a counter.
    pub fn value(&self, i: usize) -> Result<u64, Error> {
        self.unsigned_to(i, FIELD_MAX)
    }

    /// Argument `i` as an offset of a log.
    pub fn offset(&self, i: usize) -> Result<u64, Error> {
        self.unsigned_to(i, OFFSET_MAX)
    }

    fn unsigned_to(&self, i: usize, max: u64) -> Result<u64, Error> {
        self.unsigned(i)
            .ok()
            .filter(|&value| value <= max)
            .ok_or(Error::NotAnInteger)
    }

    /// The start positions of the groups of `size` arguments from `first` to the last argument. Fails unless there is
    /// at least one group and each is complete. Numbers are parsed later, after all syntax checks.
    pub fn groups(
        &self,
        first: usize,
        size: usize,
    ) -> Result<impl Iterator<Item = usize> + use<>, Error> {
        let rest = self.len() - first;
        if rest == 0 || !rest.is_multiple_of(size) {
            Err(Error::Arity)
        } else {
            Ok((first..self.len()).step_by(size))
        }
    }

    /// The arguments from `first` on as ids.
    pub fn ids(&self, first: usize) -> Result<Scratch<u64>, Error> {
        self.ids_in(first..self.len())
    }

    /// These arguments as ids.
    pub fn ids_in(&self, args: Range<usize>) -> Result<Scratch<u64>, Error> {
        let mut ids = buffers::numbers();
        for i in args {
            ids.push(self.unsigned(i)?);
        }
        Ok(ids)
    }
}
