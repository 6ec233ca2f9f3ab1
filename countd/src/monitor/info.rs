//! The reply of `INFO`.

use std::collections::HashMap;

/// The fields of `INFO everything`, and its statistics of commands. Borrows the reply.
#[derive(Debug, Default)]
pub struct Info<'a> {
    fields: HashMap<&'a str, &'a str>,
    /// In the order of the reply.
    commands: Vec<(&'a str, &'a str)>,
    latencies: Vec<(&'a str, &'a str)>,
}

impl<'a> Info<'a> {
    /// Parses a reply. Lines that are not fields are ignored.
    pub fn parse(text: &'a str) -> Info<'a> {
        let mut info = Info::default();
        for line in text.lines() {
            let Some((name, value)) = line.trim_end().split_once(':') else {
                continue;
            };
            if let Some(command) = name.strip_prefix("cmdstat_") {
                info.commands.push((command, value));
            } else if let Some(command) = name.strip_prefix("latency_percentiles_usec_") {
                info.latencies.push((command, value));
            } else {
                info.fields.insert(name, value);
            }
        }
        info
    }

    /// The text of a field.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.fields.get(name).copied()
    }

    /// The number in a field.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.text(name)?.parse().ok()
    }

    /// The number of a part of a field, such as `keys` of `db0:keys=3,expires=0`.
    pub fn part(&self, name: &str, part: &str) -> Option<f64> {
        parts(self.text(name)?).find_map(|(found, value)| (found == part).then_some(value))
    }

    /// The number of keys in all databases.
    pub fn keys(&self) -> f64 {
        let names = self.fields.keys();
        let databases = names.filter(|name| {
            let number = name.strip_prefix("db");
            number.is_some_and(|number| number.parse::<u32>().is_ok())
        });
        databases.filter_map(|name| self.part(name, "keys")).sum()
    }

    /// The statistics of each command that was called: its name, and their names and values.
    pub fn commands(&self) -> impl Iterator<Item = (&'a str, HashMap<&'a str, f64>)> {
        let commands = self.commands.iter();
        commands.map(|(name, statistics)| (*name, parts(statistics).collect()))
    }

    /// The latencies of each command that was called, in microseconds: its name, and percentiles such as `p50`.
    pub fn latencies(&self) -> impl Iterator<Item = (&'a str, HashMap<&'a str, f64>)> {
        let latencies = self.latencies.iter();
        latencies.map(|(name, percentiles)| (*name, parts(percentiles).collect()))
    }
}

/// The parts of `a=1,b=2`. Those that are not numbers are left out.
fn parts(text: &str) -> impl Iterator<Item = (&str, f64)> {
    text.split(',').filter_map(|part| {
        let (name, value) = part.split_once('=')?;
        Some((name, value.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_is_parsed() {
        let text = "# Server\r\nredis_version:7.0.15\r\nused_cpu_sys:1.5\r\n\r\n# Commandstats\r\n\
            cmdstat_CINT.GET:calls=3,usec=12,usec_per_call=4.00,rejected_calls=1,failed_calls=2\r\n\
            latency_percentiles_usec_CINT.GET:p50=1.003,p99=5.023,p99.9=9\r\nerrorstat_NOSCRIPT:count=7\r\n\
            db0:keys=3,expires=1,avg_ttl=0\r\ndb12:keys=4,expires=0\r\ndbx:keys=9\r\n";
        let info = Info::parse(text);
        assert_eq!(info.text("redis_version"), Some("7.0.15"));
        assert_eq!(info.number("used_cpu_sys"), Some(1.5));
        assert_eq!(info.number("redis_version"), None);
        assert_eq!(info.part("errorstat_NOSCRIPT", "count"), Some(7.0));
        assert_eq!(info.keys(), 7.0);
        let (name, statistics) = info.commands().next().expect("a command");
        assert_eq!(
            (name, statistics["usec"], statistics["failed_calls"]),
            ("CINT.GET", 12.0, 2.0)
        );
        let (name, percentiles) = info.latencies().next().expect("a command");
        assert_eq!((name, percentiles["p99.9"]), ("CINT.GET", 9.0));
    }
}
