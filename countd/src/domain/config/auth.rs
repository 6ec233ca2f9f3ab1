//! `[auth]`: static tokens and JSON Web Tokens.

use super::error::{ConfigError, invalid};
use crate::domain::ids::Name;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;

/// The maximum of `auth.jwt.leeway_seconds`.
const MAX_LEEWAY: u64 = 3_600;

/// `[auth]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthConfig {
    /// The accepted static bearer tokens.
    pub tokens: Vec<Token>,
    /// The file with further tokens; empty for none.
    pub tokens_file: PathBuf,
    /// Whether a process without tokens may listen on an address that other machines can reach.
    pub allow_anonymous: bool,
    /// The accepted JSON Web Tokens.
    pub jwt: JwtConfig,
}

/// `[auth.jwt]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JwtConfig {
    /// The file with the public keys of RS256 and ES256; empty for none.
    pub jwks_file: PathBuf,
    /// The file with the secret of HS256; empty for none.
    pub hs256_secret_file: PathBuf,
    /// The required issuer; empty for any.
    pub issuer: String,
    /// The required audience; empty for any.
    pub audience: String,
    /// The rights of each token.
    pub rights: Vec<Right>,
    /// The tolerated difference between the clocks, in seconds.
    pub leeway_seconds: u64,
    /// Whether actions may name an author other than the user of the token.
    pub may_name_authors: bool,
    /// Whether actions may remove from a repeatable metric.
    pub may_remove_repeatable: bool,
}

impl JwtConfig {
    /// Whether JSON Web Tokens are accepted.
    pub fn is_enabled(&self) -> bool {
        [&self.jwks_file, &self.hs256_secret_file]
            .iter()
            .any(|file| !file.as_os_str().is_empty())
    }
}

impl AuthConfig {
    /// Whether requests need a token.
    pub fn is_enabled(&self) -> bool {
        !self.tokens.is_empty() || self.jwt.is_enabled()
    }

    /// Whether a process may listen on an address, which `setting` configures: without tokens, every client may do everything that it serves.
    ///
    /// # Errors
    /// The address is not of the loopback, there are no tokens, and the configuration does not permit it.
    pub fn check_address(&self, setting: &str, address: IpAddr) -> Result<(), ConfigError> {
        // An IPv4 address can be written as an IPv6 address.
        let is_local = address.to_canonical().is_loopback();
        if is_local || self.is_enabled() || self.allow_anonymous {
            return Ok(());
        }
        let problem = "other machines could do everything that this address serves without a token: configure auth.tokens or auth.jwt, or set auth.allow_anonymous = true";
        Err(invalid(setting, problem))
    }

    /// Adds the tokens of the file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a JSON list of tokens.
    pub(super) fn read_tokens_file(&mut self) -> Result<(), ConfigError> {
        let file = &self.tokens_file;
        if file.as_os_str().is_empty() {
            return Ok(());
        }
        let problem = |problem: String| {
            let problem = format!("{}: {problem}", file.display());
            invalid("auth.tokens_file", problem)
        };
        let text = std::fs::read_to_string(file).map_err(|error| problem(error.to_string()))?;
        let tokens: Vec<Token> = serde_json::from_str(&text).map_err(|error| {
            // The message of the parser can contain a token.
            let (line, column) = (error.line(), error.column());
            problem(format!(
                "line {line}, column {column}: not a JSON list of tokens"
            ))
        })?;
        self.tokens.extend(tokens);
        Ok(())
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let mut names = BTreeSet::new();
        for token in &self.tokens {
            let is_valid =
                token.token.len() >= 16 && token.token.bytes().all(|b| b.is_ascii_graphic());
            if !is_valid || token.rights.is_empty() {
                let problem =
                    "a token has at least 16 printable ASCII characters, no spaces, and a right";
                return Err(invalid("auth.tokens", problem));
            }
            if token.name.as_ref().is_some_and(|name| !names.insert(name)) {
                return Err(invalid("auth.tokens", "two tokens have the same name"));
            }
        }
        if self.jwt.is_enabled() && self.jwt.rights.is_empty() {
            return Err(invalid("auth.jwt.rights", "at least one right is required"));
        }
        if self.jwt.leeway_seconds > MAX_LEEWAY {
            let problem = format!("must be at most {MAX_LEEWAY}");
            return Err(invalid("auth.jwt.leeway_seconds", problem));
        }
        Ok(())
    }
}

/// A bearer token.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// The name in logs and metrics.
    #[serde(default)]
    pub name: Option<Name>,
    /// The secret: at least 16 printable ASCII characters without spaces.
    pub token: String,
    /// The rights of the token.
    pub rights: Vec<Right>,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a token for {:?}", self.rights)
    }
}

/// A right of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Read counters, statuses and users.
    Read,
    /// Send actions and events, and reset counters.
    Write,
    /// Read the metrics.
    Admin,
}

impl Right {
    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Right::Read => "read",
            Right::Write => "write",
            Right::Admin => "admin",
        }
    }
}
