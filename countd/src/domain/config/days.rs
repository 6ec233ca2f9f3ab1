//! `[days]`: counts by day.

use super::error::{ConfigError, invalid};
use crate::domain::day::{Calendar, UtcOffset};
use serde::Deserialize;

/// The maximum of `keep`: a year.
const MAX_KEEP: u16 = 366;
/// The maximum of `oldest`: ten years.
const MAX_OLDEST: u16 = 3_660;

/// `[days]`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DaysConfig {
    /// The offset of the days from those of UTC.
    pub utc_offset: UtcOffset,
    /// The number of days, including today, before a day is archived.
    pub keep: u16,
    /// The maximum age of an event that counts in its own day, in days.
    pub oldest: u16,
    /// The maximum length of the stream of a day, about.
    pub stream_len: u64,
    /// The interval between two passes that archive days, in seconds.
    pub archive_interval_seconds: u64,
}

impl DaysConfig {
    /// The calendar of the days.
    pub fn calendar(&self) -> Calendar {
        Calendar::new(self.utc_offset, self.keep, self.oldest)
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if !(1..=MAX_KEEP).contains(&self.keep) {
            return Err(invalid("days.keep", format!("must be 1 to {MAX_KEEP}")));
        }
        if !(self.keep..=MAX_OLDEST).contains(&self.oldest) {
            let problem = format!("must be days.keep to {MAX_OLDEST}");
            return Err(invalid("days.oldest", problem));
        }
        for (setting, value) in [
            ("days.stream_len", self.stream_len),
            (
                "days.archive_interval_seconds",
                self.archive_interval_seconds,
            ),
        ] {
            if value == 0 {
                return Err(invalid(setting, "must be at least 1"));
            }
        }
        Ok(())
    }
}
