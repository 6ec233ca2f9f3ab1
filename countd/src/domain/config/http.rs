//! `[http]`: the HTTP server.

use super::auth::AuthConfig;
use super::error::{ConfigError, invalid};
use super::tls::check_pair;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The minimum of `http.max_bodies_bytes`. The budget for items is derived from it.
const MIN_BODIES: usize = 1 << 20;
/// The maximum of `http.keep_alive_seconds` and `http.cors.max_age_seconds`: a day.
const MAX_SECONDS: u64 = 86_400;
/// The maximum of `http.drain_ms`: ten minutes.
const MAX_DRAIN: u64 = 600_000;

/// `[http]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpConfig {
    /// The address and port to listen on.
    pub listen: SocketAddr,
    /// The maximum length of a request body, in bytes.
    pub max_body_bytes: usize,
    /// The memory budget for all request bodies in progress, in bytes.
    pub max_bodies_bytes: usize,
    /// The timeout of a request, in milliseconds.
    pub timeout_ms: u64,
    /// The timeout for receiving the headers of a request, in milliseconds.
    pub header_timeout_ms: u64,
    /// The time after which a connection is closed that has sent no further request, in seconds: 1 to 86,400.
    pub keep_alive_seconds: u64,
    /// The time between SIGTERM and the shutdown, in milliseconds: up to 600,000.
    pub drain_ms: u64,
    /// The maximum number of open connections.
    pub max_connections: usize,
    /// The maximum number of actions or envelopes in a request.
    pub max_actions: usize,
    /// The maximum number of entities or users in a batch read.
    pub max_batch: usize,
    /// Whether the process serves the console at `/admin`.
    pub console: bool,
    /// Whether the process serves the demo at `/demo`.
    pub demo: bool,
    /// The certificate of the server.
    pub tls: HttpTlsConfig,
    /// Requests of web pages of other origins.
    pub cors: CorsConfig,
}

/// `[http.tls]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpTlsConfig {
    /// The file with the certificate chain; empty for plain HTTP.
    pub cert_file: PathBuf,
    /// The file with the private key.
    pub key_file: PathBuf,
}

/// `[http.cors]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorsConfig {
    /// The origins whose pages may send requests, or `*` for all. None without any.
    pub origins: Vec<String>,
    /// The time for which browsers remember the answer to a preflight request, in seconds: up to 86,400.
    pub max_age_seconds: u64,
}

impl HttpConfig {
    /// The timeout for receiving the headers of a request.
    pub fn header_timeout(&self) -> Duration {
        Duration::from_millis(self.header_timeout_ms)
    }

    /// The time after which an idle connection is closed.
    pub fn keep_alive(&self) -> Duration {
        Duration::from_secs(self.keep_alive_seconds)
    }

    /// The time between SIGTERM and the shutdown.
    pub fn drain(&self) -> Duration {
        Duration::from_millis(self.drain_ms)
    }

    pub(super) fn validate(&self, auth: &AuthConfig) -> Result<(), ConfigError> {
        if self.max_bodies_bytes < self.max_body_bytes.max(MIN_BODIES) {
            let problem =
                format!("must be at least http.max_body_bytes, and at least {MIN_BODIES}");
            return Err(invalid("http.max_bodies_bytes", problem));
        }
        if !(1..=MAX_SECONDS).contains(&self.keep_alive_seconds) {
            let problem = format!("must be 1 to {MAX_SECONDS}");
            return Err(invalid("http.keep_alive_seconds", problem));
        }
        if self.drain_ms > MAX_DRAIN {
            return Err(invalid(
                "http.drain_ms",
                format!("must be at most {MAX_DRAIN}"),
            ));
        }
        auth.check_address("http.listen", self.listen.ip())?;
        check_pair("http.tls", &self.tls.cert_file, &self.tls.key_file)?;
        self.cors.validate()
    }
}

impl CorsConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        if self.max_age_seconds > MAX_SECONDS {
            let problem = format!("must be at most {MAX_SECONDS}");
            return Err(invalid("http.cors.max_age_seconds", problem));
        }
        let all = self.origins.iter().any(|origin| origin == "*");
        if all && self.origins.len() > 1 {
            return Err(invalid("http.cors.origins", "\"*\" must be the only one"));
        }
        match all || self.origins.iter().all(|origin| is_origin(origin)) {
            true => Ok(()),
            false => {
                let problem =
                    "must be origins like \"https://app.example.com\", without a path, or \"*\"";
                Err(invalid("http.cors.origins", problem))
            }
        }
    }
}

/// Whether a text is an origin as browsers send it: a scheme, a host, and a port if it is not the default one.
fn is_origin(text: &str) -> bool {
    let host = ["https://", "http://"]
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme));
    let is_valid =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_:[]".contains(&byte);
    host.is_some_and(|host| !host.is_empty() && host.bytes().all(is_valid))
}
