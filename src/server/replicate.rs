//! Replication of changes to replicas and the append-only file.

use std::cell::Cell;
use std::ffi::CStr;

use redis_module::raw;

use super::api::api;
use super::call::Call;
use super::string::c_text;
use crate::scratch::Scratch;

thread_local! {
    static HANDLES: Cell<Vec<*mut raw::RedisModuleString>> = const { Cell::new(Vec::new()) };
}

/// An option of a command with its integer, such as `LEN 5`.
pub type IntOption = (&'static CStr, i64);

/// The form in which a change is replicated.
#[derive(Clone, Copy)]
pub enum Replicate<'a> {
    /// As the client sent it.
    Verbatim,
    /// The client's arguments with an option inserted, because the replica's settings may imply another value.
    WithOption {
        /// The command; None for the client's own.
        command: Option<&'static CStr>,
        /// The option to insert.
        option: IntOption,
        /// The argument before which it is inserted.
        at: usize,
    },
    /// As another command that has the same effect on one key.
    Effect {
        /// The command.
        command: &'static CStr,
        /// The positions of the client's arguments to pass on.
        args: [Option<usize>; 3],
        /// The positions of further ones, after these.
        more: &'a [usize],
        /// An integer after these arguments, and an option after the integer.
        number: Option<(i64, Option<IntOption>)>,
    },
}

impl Call<'_> {
    /// Replicates a change. Runs no hooks.
    ///
    /// A change that runs hooks, such as storing a new value, is replicated before it is made: replicas must receive
    /// what a hook writes after the change that the hook has seen.
    #[inline(always)]
    pub(super) fn replicate(&self, replicate: Replicate) {
        if matches!(replicate, Replicate::Verbatim) {
            api!(RedisModule_ReplicateVerbatim(self.ctx()));
        } else {
            self.replicate_rewritten(&replicate);
        }
    }

    #[inline(never)]
    fn replicate_rewritten(&self, replicate: &Replicate) {
        match *replicate {
            Replicate::Verbatim => {}
            Replicate::WithOption {
                command,
                option,
                at,
            } => self.replicate_with_option(command, option, at),
            Replicate::Effect {
                command,
                args,
                more,
                number,
            } => self.replicate_effect(
                command,
                args.into_iter().flatten().chain(more.iter().copied()),
                number,
            ),
        }
    }

    fn replicate_with_option(
        &self,
        command: Option<&'static CStr>,
        (word, number): IntOption,
        at: usize,
    ) {
        // SAFETY: the call's own argument.
        let command = command.map_or_else(|| unsafe { c_text(self.handle(0)) }, CStr::as_ptr);
        let (before, after) = (&self.handles(1)[..at - 1], self.handles(at));
        api!(RedisModule_Replicate(
            self.ctx(),
            command,
            c"vclv".as_ptr(),
            before.as_ptr(),
            before.len(),
            word.as_ptr(),
            number,
            after.as_ptr(),
            after.len()
        ));
    }

    fn replicate_effect(
        &self,
        command: &CStr,
        args: impl Iterator<Item = usize>,
        number: Option<(i64, Option<IntOption>)>,
    ) {
        let mut handles = Scratch::take(&HANDLES);
        handles.extend(args.map(|i| self.handle(i)));
        let (ctx, command) = (self.ctx(), command.as_ptr());
        let (names, count) = (handles.as_ptr(), handles.len());
        match number {
            None => api!(RedisModule_Replicate(
                ctx,
                command,
                c"v".as_ptr(),
                names,
                count
            )),
            Some((number, None)) => api!(RedisModule_Replicate(
                ctx,
                command,
                c"vl".as_ptr(),
                names,
                count,
                number
            )),
            Some((number, Some((word, value)))) => api!(RedisModule_Replicate(
                ctx,
                command,
                c"vlcl".as_ptr(),
                names,
                count,
                number,
                word.as_ptr(),
                value
            )),
        };
    }
}
