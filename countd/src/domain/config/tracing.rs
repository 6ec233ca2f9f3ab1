//! `[tracing]`: traces of OpenTelemetry.

use super::error::{ConfigError, invalid};
use super::secret::Secret;
use serde::Deserialize;
use std::path::PathBuf;

/// `[tracing]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TracingConfig {
    /// The URL of an OpenTelemetry collector; empty for no traces.
    pub otlp_endpoint: String,
    /// Headers of its requests, as `name=value,name=value`.
    pub otlp_headers: Secret,
    /// Certificate authorities of the collector (PEM); those of the system if it is empty.
    pub otlp_ca_file: PathBuf,
    /// The share of the traces that begin here which are recorded, 0 to 1.
    pub sample_ratio: f64,
    /// The attribute `service.name`.
    pub service_name: String,
}

impl TracingConfig {
    /// The headers: names and values.
    ///
    /// # Errors
    /// A part has no name, or is not `name=value`. The error does not contain it.
    pub fn headers(&self) -> Result<Vec<(&str, &str)>, ConfigError> {
        let parts = self.otlp_headers.expose().split(',');
        let parts = parts.map(str::trim).filter(|part| !part.is_empty());
        parts
            .map(|part| {
                let (name, value) = part.split_once('=').unwrap_or_default();
                let (name, value) = (name.trim(), value.trim());
                let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
                let is_valid = !name.is_empty() && name.chars().all(is_name);
                let has_value = value.chars().all(|c| c == ' ' || c.is_ascii_graphic());
                match is_valid && has_value {
                    true => Ok((name, value)),
                    false => Err(invalid(
                        "tracing.otlp_headers",
                        "must be name=value,name=value",
                    )),
                }
            })
            .collect()
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if !(0.0..=1.0).contains(&self.sample_ratio) {
            return Err(invalid("tracing.sample_ratio", "must be 0 to 1"));
        }
        if self.service_name.is_empty() {
            return Err(invalid("tracing.service_name", "must not be empty"));
        }
        let is_url = ["http://", "https://"]
            .iter()
            .any(|scheme| self.otlp_endpoint.starts_with(scheme));
        if !self.otlp_endpoint.is_empty() && !is_url {
            let problem = "must be a URL such as http://HOST:4318";
            return Err(invalid("tracing.otlp_endpoint", problem));
        }
        self.headers().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn parse(settings: &str) -> Result<Config, String> {
        Config::parse(&format!("[tracing]\n{settings}\n")).map_err(|error| error.to_string())
    }

    #[test]
    fn headers_are_names_and_values() {
        let config = parse("otlp_headers = \"Authorization=Bearer a=b, x-tenant = 7,\"");
        let config = config.expect("valid");
        let headers = config.tracing.headers().expect("valid");
        assert_eq!(
            headers,
            [("Authorization", "Bearer a=b"), ("x-tenant", "7")]
        );
        assert!(!format!("{:?}", config.tracing).contains("Bearer"));
        let none = parse("").expect("valid");
        assert!(none.tracing.headers().expect("valid").is_empty());
    }

    #[test]
    fn invalid_settings_are_refused_without_their_secrets() {
        for (settings, name) in [
            ("sample_ratio = 1.5", "tracing.sample_ratio"),
            ("sample_ratio = -0.1", "tracing.sample_ratio"),
            ("service_name = \"\"", "tracing.service_name"),
            (
                "otlp_endpoint = \"collector:4318\"",
                "tracing.otlp_endpoint",
            ),
            ("otlp_headers = \"hunter2\"", "tracing.otlp_headers"),
            ("otlp_headers = \"=hunter2\"", "tracing.otlp_headers"),
            ("otlp_headers = \"a b=hunter2\"", "tracing.otlp_headers"),
        ] {
            let error = parse(settings).expect_err("refused");
            assert!(
                error.contains(name) && !error.contains("hunter2"),
                "{error}"
            );
        }
        parse("sample_ratio = 0").expect("valid");
    }
}
