//! Files with certificates and private keys.

use super::error::{ConfigError, invalid};
use std::path::Path;

/// Checks that a certificate has a key, and a key a certificate.
pub(super) fn check_pair(section: &str, cert: &Path, key: &Path) -> Result<(), ConfigError> {
    let is_set = |file: &Path| !file.as_os_str().is_empty();
    let missing = match (is_set(cert), is_set(key)) {
        (true, false) => "key_file",
        (false, true) => "cert_file",
        _ => return Ok(()),
    };
    Err(invalid(
        format!("{section}.{missing}"),
        "a certificate and its key are required together",
    ))
}
