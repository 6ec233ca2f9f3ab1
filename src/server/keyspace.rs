//! The keyspace of one call.
//!
//! Hooks of other modules run whenever the server publishes an event: `keymiss` when a missing key is opened for
//! reading, `expired` when an expired key is opened, `new` when a key is created, and the event of each change. A hook
//! may delete, overwrite or resize any key. So everything that can run a hook takes `&mut Keyspace`, of which a call
//! has one, and an open key or a borrowed value borrows it. The compiler then refuses to publish an event while a
//! value is in use, and to open a second key while the first is open.

use redis_module::raw;

use super::call::Call;

/// The keys of one call.
pub struct Keyspace<'a> {
    call: &'a Call<'a>,
}

impl<'a> Keyspace<'a> {
    /// The keys of `call`.
    ///
    /// # Safety
    /// The call has no other `Keyspace`.
    pub(super) unsafe fn new(call: &'a Call<'a>) -> Self {
        Keyspace { call }
    }

    /// The call.
    #[inline]
    pub fn call(&self) -> &'a Call<'a> {
        self.call
    }

    /// The server's handle of the call, for functions that may run hooks of other modules.
    pub(super) fn ctx(&mut self) -> *mut raw::RedisModuleCtx {
        self.call.ctx()
    }
}
