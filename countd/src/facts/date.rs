//! Dates (UTC) as numbers such as 20261231.

/// The length of a day in milliseconds.
const DAY_MS: u64 = 24 * 3600 * 1000;

/// The date of a time in milliseconds since 1970.
pub fn of(ms: u64) -> u64 {
    civil(ms / DAY_MS)
}

/// The date before the `days` days that end with the day of a time in milliseconds since 1970. 0 if they start before 1970.
pub fn before(ms: u64, days: u16) -> u64 {
    (ms / DAY_MS).checked_sub(days.into()).map_or(0, civil)
}

/// Howard Hinnant's `civil_from_days`, for days since 1970. An era is 400 years; its years start in March.
fn civil(days: u64) -> u64 {
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
}
