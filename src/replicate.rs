//! How a change reaches replicas and the append-only file.

use std::ffi::CStr;

use redis_module::raw;

use crate::api::api;
use crate::call::{Call, raw_text};

/// The form in which a change is replicated.
#[derive(Clone, Copy)]
pub enum Replicate {
    /// As the client sent it: it means the same there.
    Verbatim,
    /// With `LEN len` put in before argument `at`, because the object was created with a length that the other side
    /// may not share.
    WithLen {
        /// The length of the object that the call created.
        len: usize,
        /// Where the command takes the option.
        at: usize,
    },
    /// As `CINT.SET key LEN len idx value`, for a command that takes no length of its own.
    AsSet {
        /// The length of the object that the call created.
        len: usize,
        /// The counter that it set.
        idx: usize,
        /// The counter's value.
        value: u64,
    },
    /// As `CTAB.SET key id LEN len idx value`, likewise, with the arguments' own id, idx and value.
    AsRow {
        /// The length of the table that the call created.
        len: usize,
    },
    /// As `command key member`: the effect on a set of a command that has others too.
    Member {
        /// `RBM.ADD` or `RBM.REM`.
        command: &'static CStr,
        /// The argument that names the set.
        key: usize,
        /// The argument that is the member.
        member: usize,
    },
    /// As `CINT.INCRBY key idx delta [LEN len]`, or `CTAB.INCRBY key id idx delta [LEN len]` with a row: the effect on a
    /// counter of a command that has others too.
    Increment {
        /// The argument that names the object or table.
        key: usize,
        /// The argument that is the row's id, in a table.
        row: Option<usize>,
        /// The argument that is the idx.
        idx: usize,
        /// What is added.
        delta: i64,
        /// The length, where the object or table was created or grew.
        len: Option<usize>,
    },
}

impl Call<'_> {
    /// Makes WATCHers fail and client caches drop the key at argument `key`. No code of other modules runs meanwhile.
    #[inline]
    pub(crate) fn signal(&self, key: usize) {
        api!(RedisModule_SignalModifiedKey(self.ctx(), self.name(key)));
    }

    /// Replicates a change. No code of other modules runs meanwhile.
    ///
    /// Before the change itself where that runs such code (storing a new value publishes `new`): replicas get what a
    /// hook writes after what it has seen.
    #[inline(always)]
    pub(crate) fn replicate(&self, replicate: Replicate) {
        if matches!(replicate, Replicate::Verbatim) {
            api!(RedisModule_ReplicateVerbatim(self.ctx()));
        } else {
            self.replicate_spelled_out(&replicate);
        }
    }

    #[inline(never)]
    fn replicate_spelled_out(&self, replicate: &Replicate) {
        match *replicate {
            Replicate::Verbatim => {}
            Replicate::WithLen { len, at } => self.replicate_with_len(len, at),
            Replicate::AsSet { len, idx, value } => self.replicate_set(len, idx, value),
            Replicate::AsRow { len } => self.replicate_row(len),
            Replicate::Member {
                command,
                key,
                member,
            } => self.replicate_member(command, key, member),
            Replicate::Increment {
                key,
                row,
                idx,
                delta,
                len,
            } => match row {
                None => self.replicate_increment(c"CINT.INCRBY", [key, idx], delta, len),
                Some(row) => self.replicate_increment(c"CTAB.INCRBY", [key, row, idx], delta, len),
            },
        }
    }

    fn replicate_with_len(&self, len: usize, at: usize) {
        let (before, after) = (&self.names(1)[..at - 1], self.names(at));
        api!(RedisModule_Replicate(
            self.ctx(),
            raw_text(self.name(0)),
            c"vclv".as_ptr(),
            before.as_ptr(),
            before.len(),
            c"LEN".as_ptr(),
            len as i64,
            after.as_ptr(),
            after.len()
        ));
    }

    fn replicate_set(&self, len: usize, idx: usize, value: u64) {
        api!(RedisModule_Replicate(
            self.ctx(),
            c"CINT.SET".as_ptr(),
            c"sclll".as_ptr(),
            self.name(1),
            c"LEN".as_ptr(),
            len as i64,
            idx as i64,
            value as i64
        ));
    }

    fn replicate_row(&self, len: usize) {
        let after = self.names(3);
        api!(RedisModule_Replicate(
            self.ctx(),
            c"CTAB.SET".as_ptr(),
            c"ssclv".as_ptr(),
            self.name(1),
            self.name(2),
            c"LEN".as_ptr(),
            len as i64,
            after.as_ptr(),
            after.len()
        ));
    }

    fn replicate_member(&self, command: &CStr, key: usize, member: usize) {
        api!(RedisModule_Replicate(
            self.ctx(),
            command.as_ptr(),
            c"ss".as_ptr(),
            self.name(key),
            self.name(member)
        ));
    }

    fn replicate_increment<const N: usize>(
        &self,
        command: &CStr,
        names: [usize; N],
        delta: i64,
        len: Option<usize>,
    ) {
        let names: [*mut raw::RedisModuleString; N] = names.map(|i| self.name(i));
        match len {
            None => api!(RedisModule_Replicate(
                self.ctx(),
                command.as_ptr(),
                c"vl".as_ptr(),
                names.as_ptr(),
                N,
                delta
            )),
            Some(len) => api!(RedisModule_Replicate(
                self.ctx(),
                command.as_ptr(),
                c"vlcl".as_ptr(),
                names.as_ptr(),
                N,
                delta,
                c"LEN".as_ptr(),
                len as i64
            )),
        };
    }
}
