//! Settings that are secret.

use serde::Deserialize;
use std::fmt;

/// A secret, such as a password.
#[derive(Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// A secret with this text.
    pub(super) fn new(text: String) -> Secret {
        Secret(text)
    }

    /// The secret. Not for logs.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a secret")
    }
}
