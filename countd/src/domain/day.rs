//! Days as dates such as 20261231, and the calendar of the days in which counts are kept.

use serde::{Deserialize, Deserializer};

/// The length of a day in milliseconds.
pub const DAY_MS: u64 = 24 * 3600 * 1000;

/// The maximum absolute offset from UTC, in minutes.
const MAX_OFFSET: i32 = 14 * 60;

/// The date (UTC) of a time in milliseconds since 1970.
pub fn of(ms: u64) -> u64 {
    civil(ms / DAY_MS)
}

/// The date before the `days` days that end with the day of a time in milliseconds since 1970. 0 if they start before 1970.
pub fn before(ms: u64, days: u16) -> u64 {
    (ms / DAY_MS).checked_sub(days.into()).map_or(0, civil)
}

/// The date of a number of days since 1970: Howard Hinnant's `civil_from_days`. An era is 400 years; its years start in March.
pub fn civil(days: u64) -> u64 {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    year * 10_000 + month * 100 + day
}

/// The number of days from 1970 to a date of the Gregorian calendar. `None` if there is no such date, or it is before 1970.
pub fn number_of(date: u64) -> Option<u64> {
    let (year, month, day) = (date / 10_000, date / 100 % 100, date % 100);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    // The inverse of `civil`.
    let shifted = if month > 2 { year } else { year - 1 };
    let (era, of_era) = (shifted / 400, shifted % 400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    let number = days.checked_sub(719_468)?;
    (civil(number) == date).then_some(number)
}

/// Formats a date such as 20261231 as `2026-12-31`.
pub fn with_dashes(date: u64) -> String {
    let (year, month, day) = (date / 10_000, date / 100 % 100, date % 100);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Parses a date such as `2026-12-31` or `20261231`. Returns the number of days since 1970.
pub fn parse(text: &str) -> Option<u64> {
    let digits = match text.split('-').collect::<Vec<_>>().as_slice() {
        [whole] if whole.len() == 8 => (*whole).to_owned(),
        [year, month, day] if (year.len(), month.len(), day.len()) == (4, 2, 2) => {
            format!("{year}{month}{day}")
        }
        _ => return None,
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number_of(digits.parse().ok()?)
}

/// An offset from UTC, in minutes: `+05:30` in the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UtcOffset(i32);

impl UtcOffset {
    /// Parses an offset: a sign, two digits of hours, a colon and two digits of minutes.
    pub fn parse(text: &str) -> Option<UtcOffset> {
        let sign = match text.as_bytes().first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let (hours, minutes) = text.get(1..)?.split_once(':')?;
        let number = |digits: &str| {
            let is_pair = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_pair.then(|| digits.parse::<i32>().ok()).flatten()
        };
        let (hours, minutes) = (number(hours)?, number(minutes)?);
        let total = hours * 60 + minutes;
        (minutes < 60 && total <= MAX_OFFSET).then_some(UtcOffset(sign * total))
    }
}

impl<'de> Deserialize<'de> for UtcOffset {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<UtcOffset, D::Error> {
        let text = String::deserialize(from)?;
        UtcOffset::parse(&text).ok_or_else(|| {
            serde::de::Error::custom("must be an offset such as +05:30, up to 14:00")
        })
    }
}

/// The day in which an event counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventDay {
    /// The number of days since 1970.
    pub number: u64,
    /// Whether the day is old enough to be archived.
    pub is_archived: bool,
}

/// Assigns events to days.
#[derive(Clone, Copy, Debug)]
pub struct Calendar {
    offset: UtcOffset,
    keep: u64,
    oldest: u64,
}

impl Calendar {
    /// The calendar with this offset, in which days are archived after `keep` days, and events older than `oldest` days count today.
    pub fn new(offset: UtcOffset, keep: u16, oldest: u16) -> Calendar {
        Calendar {
            offset,
            keep: keep.into(),
            oldest: oldest.into(),
        }
    }

    /// The number of the day of a time in milliseconds since 1970.
    pub fn day_of(&self, ms: u64) -> u64 {
        let offset_ms = i64::from(self.offset.0) * 60_000;
        ms.saturating_add_signed(offset_ms) / DAY_MS
    }

    /// The day in which an event with this timestamp counts at the time `now`. An event without a timestamp, of the future, or older
    /// than the oldest day counts today.
    pub fn event_day(&self, ts: u64, now: u64) -> EventDay {
        let today = self.day_of(now);
        let day = self.day_of(ts);
        // A clock may be ahead of ours.
        let is_plausible = ts > 0 && day <= today + 1 && day + self.oldest >= today;
        let number = if is_plausible { day.min(today) } else { today };
        EventDay {
            number,
            is_archived: self.is_archived(number, today),
        }
    }

    /// Whether a day is archived when it is `today`.
    pub fn is_archived(&self, day: u64, today: u64) -> bool {
        day + self.keep <= today
    }

    /// The first date that is not archived at the time `now`.
    pub fn first_kept(&self, now: u64) -> u64 {
        civil((self.day_of(now) + 1).saturating_sub(self.keep))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_gregorian_calendar() {
        for (seconds, date) in [
            (0, 19_700_101),
            (86_399, 19_700_101),
            (86_400, 19_700_102),
            (951_782_400, 20_000_229),
            (951_868_800, 20_000_301),
            (1_798_675_200, 20_261_231),
            (1_798_761_600, 20_270_101),
            (4_107_542_400, 21_000_301),
        ] {
            assert_eq!(of(seconds * 1000), date, "{seconds}");
        }
    }

    #[test]
    fn current_day_is_one_of_the_days() {
        let new_year = 1_798_761_600_000;
        assert_eq!(before(new_year, 1), 20_261_231);
        assert_eq!(before(new_year, 7), 20_261_225);
        assert_eq!(before(0, 1), 0);
    }

    #[test]
    fn dates_are_parsed_and_formatted() {
        for number in [0, 1, 11_016, 20_779, 47_540] {
            assert_eq!(number_of(civil(number)), Some(number));
            assert_eq!(parse(&with_dashes(civil(number))), Some(number));
            assert_eq!(parse(&civil(number).to_string()), Some(number));
        }
        for bad in [
            "",
            "2026",
            "2026-1-01",
            "2026-02-30",
            "20261301",
            "2026-13-01",
            "1969-12-31",
            "+0261231",
            "2026-12-3x",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn offsets_are_parsed() {
        assert_eq!(UtcOffset::parse("+05:30"), Some(UtcOffset(330)));
        assert_eq!(UtcOffset::parse("-03:00"), Some(UtcOffset(-180)));
        for bad in [
            "", "+", "5:30", "+5:30", "+05:60", "+14:01", "+é:00", "+05:3",
        ] {
            assert_eq!(UtcOffset::parse(bad), None, "{bad}");
        }
    }

    fn calendar(offset: &str) -> Calendar {
        Calendar {
            offset: UtcOffset::parse(offset).expect("an offset"),
            keep: 30,
            oldest: 100,
        }
    }

    #[test]
    fn an_offset_moves_midnight() {
        let new_year = 1_798_761_600_000;
        assert_eq!(civil(calendar("+00:00").day_of(new_year - 1)), 20_261_231);
        assert_eq!(civil(calendar("+08:00").day_of(new_year - 1)), 20_270_101);
        assert_eq!(civil(calendar("-00:01").day_of(new_year)), 20_261_231);
    }

    #[test]
    fn implausible_times_count_today() {
        let (calendar, now) = (calendar("+00:00"), 1_798_761_600_000);
        let day = |ts: u64| {
            let EventDay {
                number,
                is_archived,
            } = calendar.event_day(ts, now);
            (civil(number), is_archived)
        };
        assert_eq!(day(now - 1), (20_261_231, false));
        assert_eq!(day(0), (20_270_101, false));
        assert_eq!(day(now + DAY_MS), (20_270_101, false));
        assert_eq!(day(now + 9 * DAY_MS), (20_270_101, false));
        assert_eq!(day(now - 29 * DAY_MS), (20_261_203, false));
        assert_eq!(day(now - 30 * DAY_MS), (20_261_202, true));
        assert_eq!(day(now - 101 * DAY_MS), (20_270_101, false));
        assert_eq!(calendar.first_kept(now), 20_261_203);
    }
}
