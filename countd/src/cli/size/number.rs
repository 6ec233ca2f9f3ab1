//! Numbers of the command line, and numbers for people.

/// Parses a number of at least 0, which may end with k, M, B or T: `30k`, `2.5M`, `10B`.
pub fn parse(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.chars().last() {
        Some('k' | 'K') => (&text[..text.len() - 1], 1e3),
        Some('M') => (&text[..text.len() - 1], 1e6),
        Some('B' | 'G') => (&text[..text.len() - 1], 1e9),
        Some('T') => (&text[..text.len() - 1], 1e12),
        _ => (text, 1.0),
    };
    let number: f64 = match digits.starts_with(|c: char| c.is_ascii_digit()) {
        true => digits.parse().map_err(|_| "not a number")?,
        false => return Err("a number such as 2500, 30k, 2.5M or 10B is expected".into()),
    };
    let value = number * factor;
    // Beyond this, differences of one are lost.
    match value <= 1e15 {
        true => Ok(value),
        false => Err("at most 1000T".into()),
    }
}

/// [`parse`] of a number above 0.
pub fn positive(text: &str) -> Result<f64, String> {
    let value = parse(text)?;
    match value > 0.0 {
        true => Ok(value),
        false => Err("more than 0 is expected".into()),
    }
}

/// [`parse`] of a number of at least 1.
pub fn at_least_one(text: &str) -> Result<f64, String> {
    let value = parse(text)?;
    match value >= 1.0 {
        true => Ok(value),
        false => Err("at least 1 is expected".into()),
    }
}

/// A percentage from 0 to 100, as a share.
pub fn percent(text: &str) -> Result<f64, String> {
    match parse(text)? {
        value if value <= 100.0 => Ok(value / 100.0),
        _ => Err("at most 100 is expected".into()),
    }
}

/// [`percent`] from 1 on.
pub fn some_percent(text: &str) -> Result<f64, String> {
    let share = percent(text)?;
    match share >= 0.01 {
        true => Ok(share),
        false => Err("at least 1 is expected".into()),
    }
}

/// A number with three digits, or more if they are before the decimal point, in which commas separate thousands.
pub fn show(value: f64) -> String {
    let decimals = match value {
        v if v <= 0.0 => 0,
        v => (2 - v.log10().floor() as i32).clamp(0, 3) as usize,
    };
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let rest = rest.trim_end_matches('0').trim_end_matches('.');
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

/// [`show`] with at most two significant digits, for estimates whose error is too large for a third one.
pub fn rough(value: f64) -> String {
    if value <= 0.0 {
        return show(value);
    }
    let unit = 10f64.powi(value.log10().floor() as i32 - 1);
    show((value / unit).round() * unit)
}

/// A number of bytes.
pub fn bytes(value: f64) -> String {
    let (unit, size) = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6)]
        .into_iter()
        .find(|(_, size)| value >= *size)
        .unwrap_or(("kB", 1e3));
    format!("{} {unit}", show(value / size))
}

/// A share as a percentage.
pub fn share(value: f64) -> String {
    format!("{:.1} %", value * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_suffixes() {
        for (text, value) in [
            ("0", 0.0),
            ("250", 250.0),
            ("30k", 3e4),
            ("2.5M", 2.5e6),
            ("10B", 1e10),
            ("1T", 1e12),
        ] {
            assert_eq!(parse(text), Ok(value), "{text}");
        }
        for text in [
            "", "k", "-1", "nan", "inf", "1x", "1e", "1e300", "+1", "µ", "1µ", "2000T",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(positive("0").is_err() && positive("0.5").is_ok());
        assert!(at_least_one("0.5").is_err() && at_least_one("1").is_ok());
    }

    #[test]
    fn percentages_are_shares() {
        assert_eq!(percent("60"), Ok(0.6));
        assert!(percent("101").is_err() && some_percent("0.5").is_err());
        assert_eq!(some_percent("1"), Ok(0.01));
        assert_eq!(share(0.0523), "5.2 %");
    }

    #[test]
    fn numbers_are_shown_with_three_or_two_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.1234, "0.123"),
            (1.5, "1.5"),
            (10.0, "10"),
            (12.345, "12.3"),
            (200.0, "200"),
            (1e7, "10,000,000"),
        ] {
            assert_eq!(show(value), text, "{value}");
        }
        for (value, text) in [
            (0.0, "0"),
            (0.276, "0.28"),
            (0.9996, "1"),
            (6.02, "6"),
            (54.8, "55"),
            (168.0, "170"),
            (1_234.0, "1,200"),
        ] {
            assert_eq!(rough(value), text, "{value}");
        }
        assert_eq!(bytes(1.5e9), "1.5 GB");
        assert_eq!(bytes(512.0), "0.512 kB");
    }
}
