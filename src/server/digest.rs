//! `DEBUG DIGEST` of a value.

use std::ffi::c_char;

use redis_module::raw;

use super::api::api;

/// The digest of one value.
pub struct Digest(*mut raw::RedisModuleDigest);

impl Digest {
    /// Adds to `digest`.
    ///
    /// # Safety
    /// `digest` is the handle that the server passed to the current `digest` callback.
    pub unsafe fn new(digest: *mut raw::RedisModuleDigest) -> Self {
        Digest(digest)
    }

    /// Adds an element. The order of the elements does not change the digest.
    pub fn add(&self, bytes: &[u8]) {
        api!(RedisModule_DigestAddStringBuffer(
            self.0,
            bytes.as_ptr().cast::<c_char>(),
            bytes.len()
        ));
        api!(RedisModule_DigestEndSequence(self.0));
    }
}
