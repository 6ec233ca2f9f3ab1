//! JSON Web Tokens: verification, and the files with the keys.
//!
//! Each key has one algorithm, which the token must name: HS256 for the secret, RS256 for RSA keys, ES256 for P-256 keys.

use super::files;
use crate::domain::config::JwtConfig;
use crate::domain::ids::Id;
use arc_swap::{ArcSwap, Guard};
use jsonwebtoken::errors::Error as JwtError;
use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, PublicKeyUse,
};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, decode_header};
use serde::Deserialize;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The minimum length of the secret, as RFC 7518 requires.
const MIN_SECRET_BYTES: usize = 32;

/// Verifies tokens.
pub struct JwtVerifier {
    config: JwtConfig,
    keys: ArcSwap<KeySet>,
}

/// Why the keys could not be read.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file cannot be read.
    #[error("{0}: {1}")]
    Io(PathBuf, io::Error),
    /// The file is not a JWK Set.
    #[error("{0}: not a JWK Set: {1}")]
    Json(PathBuf, serde_json::Error),
    /// A key is malformed.
    #[error("{0}: invalid key: {1}")]
    Key(PathBuf, JwtError),
    /// The set has no usable key.
    #[error("{0}: no RSA key or P-256 key for signatures")]
    NoKey(PathBuf),
    /// The secret is too short.
    #[error("{0}: the secret has fewer than {MIN_SECRET_BYTES} bytes")]
    ShortSecret(PathBuf),
    /// The process cannot handle signals.
    #[error("cannot handle SIGHUP: {0}")]
    Signal(#[from] io::Error),
}

/// The keys of the files.
struct KeySet {
    keys: Vec<Key>,
    /// What the files contained, to notice changes.
    contents: Vec<Vec<u8>>,
}

/// A key with its algorithm.
struct Key {
    id: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
}

/// The claims that are read. The library validates the others.
#[derive(Deserialize)]
struct Claims {
    sub: String,
    // A claim of another type is rejected, not ignored.
    #[serde(rename = "exp")]
    _exp: f64,
    #[serde(rename = "nbf")]
    _nbf: Option<f64>,
}

impl JwtVerifier {
    /// Reads the keys. Must be called in a Tokio runtime: a background task reads changed files again, and all files at SIGHUP. Returns `None` if
    /// no file is configured.
    ///
    /// # Errors
    /// A file cannot be read, or has no valid key, or the process cannot handle signals.
    pub fn start(config: &JwtConfig) -> Result<Option<Arc<JwtVerifier>>, KeyFileError> {
        if !config.is_enabled() {
            return Ok(None);
        }
        let files = [&config.jwks_file, &config.hs256_secret_file];
        let files = files
            .into_iter()
            .filter(|file| !file.as_os_str().is_empty());
        let verifier = Arc::new(JwtVerifier {
            keys: ArcSwap::from_pointee(KeySet::read(config)?),
            config: config.clone(),
        });
        files::watch(
            files.cloned().collect(),
            &verifier,
            |verifier: &JwtVerifier| {
                if let Err(error) = verifier.reload() {
                    tracing::error!(%error, "cannot read the keys of tokens: the old keys stay");
                }
            },
        )?;
        Ok(Some(verifier))
    }

    fn keys(&self) -> Guard<Arc<KeySet>> {
        self.keys.load()
    }

    /// The user of a token; `None` if the token is invalid.
    pub fn verify(&self, token: &str) -> Option<Id> {
        let header = decode_header(token).ok()?;
        let keys = self.keys();
        let key = keys.key_of(&header)?;
        let claims = decode::<Claims>(token, &key.key, &self.validation(key.algorithm));
        Id::new(claims.ok()?.claims.sub).ok()
    }

    fn validation(&self, algorithm: Algorithm) -> Validation {
        let JwtConfig {
            issuer, audience, ..
        } = &self.config;
        let mut validation = Validation::new(algorithm);
        validation.leeway = self.config.leeway_seconds;
        validation.validate_nbf = true;
        let mut required = vec!["exp", "sub"];
        if !issuer.is_empty() {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        validation.validate_aud = !audience.is_empty();
        if !audience.is_empty() {
            validation.set_audience(&[audience]);
            required.push("aud");
        }
        validation.set_required_spec_claims(&required);
        validation
    }

    /// Replaces the keys by those of the files as they are now.
    fn reload(&self) -> Result<(), KeyFileError> {
        let keys = KeySet::read(&self.config)?;
        if keys.contents != self.keys().contents {
            tracing::info!(keys = keys.keys.len(), "read the keys of tokens again");
            self.keys.store(Arc::new(keys));
        }
        Ok(())
    }
}

impl KeySet {
    /// The key of a token: of the keys of its algorithm the one with its key ID. If no key has that ID, a key without an ID can have any.
    /// `None` unless exactly one key is possible.
    fn key_of(&self, header: &Header) -> Option<&Key> {
        let keys = self.keys.iter();
        let mut candidates: Vec<&Key> = keys.filter(|key| key.algorithm == header.alg).collect();
        if header.kid.is_some() {
            let is_known = candidates.iter().any(|key| key.id == header.kid);
            candidates.retain(|key| match is_known {
                true => key.id == header.kid,
                false => key.id.is_none(),
            });
        }
        match candidates.as_slice() {
            [key] => Some(key),
            _ => None,
        }
    }

    fn read(config: &JwtConfig) -> Result<KeySet, KeyFileError> {
        let (mut keys, mut contents) = (Vec::new(), Vec::new());
        let (jwks, secret) = (&config.jwks_file, &config.hs256_secret_file);
        if !jwks.as_os_str().is_empty() {
            let bytes = read(jwks)?;
            keys.extend(jwks_keys(jwks, &bytes)?);
            contents.push(bytes);
        }
        if !secret.as_os_str().is_empty() {
            let bytes = read(secret)?;
            keys.push(secret_key(secret, &bytes)?);
            contents.push(bytes);
        }
        Ok(KeySet { keys, contents })
    }
}

fn read(file: &Path) -> Result<Vec<u8>, KeyFileError> {
    std::fs::read(file).map_err(|error| KeyFileError::Io(file.to_owned(), error))
}

/// The key of a secret. White space at its end is ignored.
fn secret_key(file: &Path, bytes: &[u8]) -> Result<Key, KeyFileError> {
    let secret = bytes.trim_ascii_end();
    if secret.len() < MIN_SECRET_BYTES {
        return Err(KeyFileError::ShortSecret(file.to_owned()));
    }
    Ok(Key {
        id: None,
        algorithm: Algorithm::HS256,
        key: DecodingKey::from_secret(secret),
    })
}

/// The keys of a JWK Set.
fn jwks_keys(file: &Path, bytes: &[u8]) -> Result<Vec<Key>, KeyFileError> {
    let set: JwkSet = serde_json::from_slice(bytes)
        .map_err(|error| KeyFileError::Json(file.to_owned(), error))?;
    let mut keys = Vec::new();
    for jwk in &set.keys {
        let Some(algorithm) = algorithm(jwk) else {
            continue;
        };
        let key = DecodingKey::from_jwk(jwk);
        keys.push(Key {
            id: jwk.common.key_id.clone(),
            algorithm,
            key: key.map_err(|error| KeyFileError::Key(file.to_owned(), error))?,
        });
    }
    match keys.is_empty() {
        true => Err(KeyFileError::NoKey(file.to_owned())),
        false => Ok(keys),
    }
}

/// The algorithm of a public key; `None` if the key is not used.
fn algorithm(jwk: &Jwk) -> Option<Algorithm> {
    let is_for_signatures = |usage: &PublicKeyUse| *usage == PublicKeyUse::Signature;
    if !jwk
        .common
        .public_key_use
        .as_ref()
        .is_none_or(is_for_signatures)
    {
        return None;
    }
    let (algorithm, named) = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
        AlgorithmParameters::EllipticCurve(curve) if curve.curve == EllipticCurve::P256 => {
            (Algorithm::ES256, KeyAlgorithm::ES256)
        }
        _ => return None,
    };
    let stated = jwk.common.key_algorithm;
    stated
        .is_none_or(|stated| stated == named)
        .then_some(algorithm)
}
