//! The arguments of `countd top`.

use clap::Args;
use std::path::PathBuf;

/// The arguments of `countd top`.
#[derive(Debug, Args)]
pub struct TopCommand {
    /// URL of a countd, such as http://127.0.0.1:8090: adds its requests and comparisons, and shows the hot entities that it lists
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// File with a token that has the right `admin`, for --url
    #[arg(long, value_name = "FILE", requires = "url")]
    pub token_file: Option<PathBuf>,
    /// File of certificate authorities (PEM), for --url; those of the system by default
    #[arg(long, value_name = "FILE", requires = "url")]
    pub ca_file: Option<PathBuf>,
    /// Seconds between two samples
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub interval: u64,
    /// Print one view as text, after an interval, instead of a live view
    #[arg(long)]
    pub once: bool,
    /// Print one view as a JSON object, after an interval, instead of a live view
    #[arg(long)]
    pub json: bool,
}

impl TopCommand {
    /// Whether it shows a live view, which takes the whole terminal.
    pub fn is_live(&self) -> bool {
        !self.once && !self.json
    }
}
