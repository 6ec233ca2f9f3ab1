//! Errors of the configuration.

/// Why a configuration is rejected.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file does not exist.
    #[error("there is no file {0}")]
    NoFile(String),
    /// A setting is unknown, missing or of the wrong type.
    #[error("{0}")]
    Unreadable(#[from] Box<figment::Error>),
    /// The file that an environment variable names cannot be read.
    #[error("{variable}: {file}: {error}")]
    NoSecret {
        /// The name of the variable.
        variable: String,
        /// The name of the file.
        file: String,
        /// Why it cannot be read.
        error: std::io::Error,
    },
    /// The value of a setting is not allowed.
    #[error("{setting}: {problem}")]
    Invalid {
        /// The name of the setting.
        setting: String,
        /// Why the value is rejected.
        problem: String,
    },
}

/// Rejects the value of a setting.
pub fn invalid(setting: impl Into<String>, problem: impl Into<String>) -> ConfigError {
    ConfigError::Invalid {
        setting: setting.into(),
        problem: problem.into(),
    }
}
