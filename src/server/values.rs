//! Reads several keys consistently.

use std::cell::Cell;
use std::marker::PhantomData;

use redis_module::raw;

use super::content::{KeyContent, KeyType};
use super::keyspace::Keyspace;
use crate::scratch::Scratch;

/// The mode in which keys are opened again without publishing `keymiss` and without counting as an access. On
/// Redis 7.0, which ignores the newer flags, opening for writing publishes no `keymiss`.
const SILENT: u32 = raw::REDISMODULE_WRITE
    | raw::REDISMODULE_OPEN_KEY_NOTOUCH
    | raw::REDISMODULE_OPEN_KEY_NONOTIFY
    | raw::REDISMODULE_OPEN_KEY_NOSTATS
    | raw::REDISMODULE_OPEN_KEY_NOEXPIRE;

thread_local! {
    static CONTENTS: Cell<Vec<KeyContent>> = const { Cell::new(Vec::new()) };
}

/// The contents of several keys, read without a hook in between, in the order of the arguments.
pub struct Values<'k> {
    contents: Scratch<KeyContent>,
    keyspace: PhantomData<&'k mut ()>,
}

#[allow(clippy::len_without_is_empty, reason = "a command has a key")]
impl Values<'_> {
    /// The content of the `n`th key.
    #[inline]
    pub fn content(&self, n: usize) -> KeyContent {
        self.contents[n]
    }

    /// The type of the `n`th key.
    pub fn key_type(&self, n: usize) -> KeyType {
        self.content(n).key_type()
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.contents.len()
    }
}

impl Keyspace<'_> {
    /// Reads the keys named by these arguments, without a hook in between.
    ///
    /// Each key is opened for reading first, which may run hooks of `keymiss` and `expired`. If a key is missing, hooks
    /// may have run, and all keys are read again without publishing. The values stay valid until the result is
    /// dropped.
    pub fn values(&mut self, keys: impl Iterator<Item = usize> + Clone) -> Values<'_> {
        let mut contents = Scratch::take(&CONTENTS);
        let mut missed = false;
        for i in keys.clone() {
            let content = self.open(i, raw::REDISMODULE_READ).content();
            missed |= content.is_missing();
            contents.push(content);
        }
        if missed {
            self.read_again(keys, &mut contents);
        }
        Values {
            contents,
            keyspace: PhantomData,
        }
    }

    /// Reads keys again that [`Keyspace::values`] has opened already. Publishes nothing.
    pub fn values_again(&mut self, keys: impl Iterator<Item = usize> + Clone) -> Values<'_> {
        let mut contents = Scratch::take(&CONTENTS);
        contents.extend(keys.clone().map(|_| KeyContent::Unread));
        self.read_again(keys, &mut contents);
        Values {
            contents,
            keyspace: PhantomData,
        }
    }

    /// Updates `contents` without publishing.
    ///
    /// One exception: if a hook has left a key that is already expired (`SET key value PXAT 1`), Redis 7.0 removes
    /// and publishes it when it is opened. So the keys are read until no key has disappeared. Each round skips the
    /// missing keys, so the loop ends.
    fn read_again(
        &mut self,
        keys: impl Iterator<Item = usize> + Clone,
        contents: &mut [KeyContent],
    ) {
        for (i, content) in keys.clone().zip(contents.iter_mut()) {
            if content.is_missing() {
                *content = self.open(i, SILENT).content();
            }
        }
        let mut disappeared = true;
        while disappeared {
            disappeared = false;
            for (i, content) in keys.clone().zip(contents.iter_mut()) {
                if !content.is_missing() {
                    *content = self.open(i, SILENT).content();
                    disappeared |= content.is_missing();
                }
            }
        }
    }
}
