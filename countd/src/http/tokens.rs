//! The static tokens, which can be replaced while the process runs.

use super::files;
use crate::domain::config::{Config, ConfigError, Token};
use arc_swap::{ArcSwap, Guard};
use std::io;
use std::sync::Arc;

/// The accepted static tokens.
pub struct Tokens(ArcSwap<Vec<Token>>);

impl Tokens {
    /// The tokens of a configuration. Must be called in a Tokio runtime: if there are any, or authentication is on, a background task reads them again
    /// when the file of the configuration or `auth.tokens_file` has changed, and at SIGHUP.
    ///
    /// # Errors
    /// The process cannot handle signals.
    pub fn start(config: &Arc<Config>) -> io::Result<Arc<Tokens>> {
        let tokens = Arc::new(Tokens(ArcSwap::from_pointee(config.auth.tokens.clone())));
        if config.auth.is_enabled() {
            let files = [config.file.as_ref(), Some(&config.auth.tokens_file)];
            let files = files.into_iter().flatten();
            let files = files.filter(|file| !file.as_os_str().is_empty());
            let config = Arc::clone(config);
            files::watch(files.cloned().collect(), &tokens, move |tokens: &Tokens| {
                if let Err(error) = tokens.reload(&config) {
                    tracing::error!(%error, "cannot read the tokens again: the old tokens stay");
                }
            })?;
        }
        Ok(tokens)
    }

    /// The tokens that are accepted now.
    pub fn load(&self) -> Guard<Arc<Vec<Token>>> {
        self.0.load()
    }

    /// Replaces the tokens by those of the configuration as it is now.
    fn reload(&self, config: &Config) -> Result<(), ConfigError> {
        let tokens = Config::load(config.file.as_deref())?.auth.tokens;
        if tokens != **self.load() {
            tracing::info!(tokens = tokens.len(), "read the tokens again");
            self.0.store(Arc::new(tokens));
        }
        Ok(())
    }
}
