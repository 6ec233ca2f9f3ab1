//! Signals and events of changed keys.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use super::api::api;
use super::call::Call;
use super::keyspace::Keyspace;

impl Call<'_> {
    /// Invalidates WATCHes and client-side caches of the key at argument `i`. Runs no hooks.
    #[inline]
    pub(super) fn signal_modified(&self, i: usize) {
        api!(RedisModule_SignalModifiedKey(self.ctx(), self.handle(i)));
    }
}

impl Keyspace<'_> {
    /// Publishes the keyspace event `event` of the key at argument `i`. Runs hooks.
    #[inline]
    pub fn publish(&mut self, i: usize, event: &CStr) {
        self.notify(i, raw::REDISMODULE_NOTIFY_MODULE, event);
    }

    /// Publishes `del` of the key at argument `i`. Runs hooks.
    pub fn publish_del(&mut self, i: usize) {
        self.notify(i, raw::REDISMODULE_NOTIFY_GENERIC, c"del");
    }

    fn notify(&mut self, i: usize, class: c_int, event: &CStr) {
        let name = self.call().handle(i);
        api!(RedisModule_NotifyKeyspaceEvent(
            self.ctx(),
            class,
            event.as_ptr(),
            name
        ));
    }
}
