//! countd in the life that it is made for: a log to count, actions to take in, counts to answer.
//!
//! One core has the server, the other one countd and the client, so a figure is what two cores do together.

mod events;
mod flows;
mod http;
mod process;
mod requests;
mod section;

use std::time::Duration;

use crate::Result;
use crate::options::Options;
use crate::report::Section;
use crate::server::{Server, Workdir};
use events::Spreading;
use section::Figures;

/// What `--only` calls it.
pub const NAME: &str = "countd";
/// Its heading.
pub const TITLE: &str = "countd: log, consumer and API";

/// How much is measured.
pub struct Load {
    /// Times that everything is started anew.
    pub repeats: usize,
    /// Events in the log that is counted.
    pub events: u64,
    /// How long requests of a kind are sent.
    pub requests: Duration,
    /// How many actions are watched until they are visible, under load.
    pub probes: usize,
}

/// Takes all measurements of countd.
pub fn measure(options: &Options) -> Result<Section> {
    let mut figures = Figures::default();
    let load = &options.scale.countd;
    for _ in 0..load.repeats {
        for spreading in [Spreading::Hot, Spreading::LongTail] {
            let dir = Workdir::new()?;
            let server = Server::start(options, &dir, Some(&options.module))?;
            process::set_schema(options, &server)?;
            flows::through_the_log(options, &server, &dir, spreading, &mut figures)?;
            if spreading == Spreading::LongTail {
                requests::measure(options, &server, &dir, &mut figures)?;
            }
        }
    }
    Ok(section::section(&figures, options))
}
