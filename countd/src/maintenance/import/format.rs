//! The formats of files: NDJSON, and CSV with a header. A record is one line in both.

use super::record::{Defaults, Fields, Record};
use crate::domain::ids::{Id, Name};
use crate::domain::text::{brief, shorten};
use csv_core::ReadRecordResult;

/// What is imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Facts.
    Facts,
    /// Counts.
    Counts,
    /// Authors of entities.
    Authors,
}

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object per line.
    Ndjson,
    /// CSV with a header line.
    Csv,
}

/// Parses lines.
pub struct Parser {
    kind: Kind,
    defaults: Defaults,
    /// The columns of a CSV file.
    columns: Option<Vec<Column>>,
    csv: CsvLine,
}

/// A column of a CSV file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Column {
    Metric,
    Etype,
    Eid,
    Uid,
    Author,
    Ts,
    Count,
    /// The counts of this metric.
    Counts(String),
}

impl Parser {
    /// A parser of NDJSON lines.
    pub fn ndjson(kind: Kind, defaults: Defaults) -> Parser {
        Parser {
            kind,
            defaults,
            columns: None,
            csv: CsvLine::new(),
        }
    }

    /// A parser of the lines of a CSV file with this header.
    ///
    /// # Errors
    /// The header has unknown or duplicate columns, or lacks required ones.
    pub fn csv(kind: Kind, defaults: Defaults, header: &[u8]) -> Result<Parser, String> {
        let mut csv = CsvLine::new();
        let mut columns = Vec::new();
        for name in csv.fields(header)? {
            let column = match (name, kind) {
                ("metric", Kind::Facts | Kind::Counts) => Column::Metric,
                ("etype", _) => Column::Etype,
                ("eid", _) => Column::Eid,
                ("uid", Kind::Facts) => Column::Uid,
                ("author", Kind::Facts | Kind::Authors) => Column::Author,
                ("ts", Kind::Facts) => Column::Ts,
                ("count", Kind::Counts) => Column::Count,
                (name, Kind::Counts) if Name::new(name).is_ok() => Column::Counts(name.to_owned()),
                (name, _) => return Err(format!("header: unknown column {}", shorten(name))),
            };
            if columns.contains(&column) {
                return Err(format!("header: duplicate column {}", shorten(name)));
            }
            columns.push(column);
        }
        if !columns.contains(&Column::Eid) {
            return Err("header: column eid is missing".to_owned());
        }
        let is_long = columns.contains(&Column::Count);
        if is_long && columns.iter().any(|c| matches!(c, Column::Counts(_))) {
            let problem = "header: column count excludes columns of metrics";
            return Err(problem.to_owned());
        }
        Ok(Parser {
            kind,
            defaults,
            columns: Some(columns),
            csv,
        })
    }

    /// Parses a line.
    ///
    /// # Errors
    /// Describes the first problem.
    pub fn parse(&mut self, line: &[u8]) -> Result<Record, String> {
        let fields = match &self.columns {
            // An array would be accepted as the values of the fields.
            None if !line.trim_ascii_start().starts_with(b"{") => {
                return Err("not a JSON object".to_owned());
            }
            None => serde_json::from_slice::<Fields>(line).map_err(|error| brief(&error))?,
            Some(columns) => from_csv(columns, &self.csv.fields(line)?)?,
        };
        match self.kind {
            Kind::Facts => fields.fact(&self.defaults),
            Kind::Counts => fields.counts(&self.defaults),
            Kind::Authors => fields.author(&self.defaults),
        }
    }
}

fn from_csv(columns: &[Column], values: &[&str]) -> Result<Fields, String> {
    if columns.len() != values.len() {
        let (expected, found) = (columns.len(), values.len());
        return Err(format!("{found} columns, but the header has {expected}"));
    }
    let mut fields = Fields::default();
    for (column, value) in columns.iter().zip(values) {
        // An empty cell has no value.
        if value.is_empty() {
            continue;
        }
        let name = || Name::new(*value).map_err(|error| format!("{}: {error}", shorten(value)));
        let id = || Id::new(*value).map_err(|error| format!("{}: {error}", shorten(value)));
        let integer = || {
            let parsed = value.parse::<i64>();
            parsed.map_err(|_| format!("{} is not an integer", shorten(value)))
        };
        match column {
            Column::Metric => fields.metric = Some(name()?),
            Column::Etype => fields.etype = Some(name()?),
            Column::Eid => fields.eid = Some(id()?),
            Column::Uid => fields.uid = Some(id()?),
            Column::Author => fields.author = Some(id()?),
            Column::Ts => fields.ts = Some(integer()?),
            Column::Count => fields.count = Some(integer()?),
            Column::Counts(metric) => {
                let counts = fields.counts.get_or_insert_default();
                counts.0.push((metric.clone(), integer()?));
            }
        }
    }
    let is_wide = columns.iter().any(|c| matches!(c, Column::Counts(_)));
    if is_wide && fields.metric.is_none() {
        fields.counts.get_or_insert_default();
    }
    Ok(fields)
}

/// Splits a line into fields. A record cannot continue on the next line, so that a stray quote does not hide other records.
struct CsvLine {
    reader: csv_core::Reader,
    output: Vec<u8>,
    ends: Vec<usize>,
}

impl CsvLine {
    fn new() -> CsvLine {
        CsvLine {
            // `Reader::default` has no parsing tables.
            reader: csv_core::Reader::new(),
            output: Vec::new(),
            ends: Vec::new(),
        }
    }

    fn fields(&mut self, line: &[u8]) -> Result<Vec<&str>, String> {
        if line.iter().filter(|byte| **byte == b'"').count() % 2 != 0 {
            return Err("a quote is not closed".to_owned());
        }
        self.reader.reset();
        self.output.resize(line.len() + 1, 0);
        self.ends.resize(line.len() + 2, 0);
        let (mut read, mut written, mut fields) = (0, 0, 0);
        loop {
            // After the end of the input, an empty input ends the record.
            let (result, nin, nout, nend) = self.reader.read_record(
                &line[read..],
                &mut self.output[written..],
                &mut self.ends[fields..],
            );
            (read, written, fields) = (read + nin, written + nout, fields + nend);
            match result {
                ReadRecordResult::Record | ReadRecordResult::End => break,
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    return Err("not a CSV record".to_owned());
                }
            }
        }
        let mut start = 0;
        let ends = self.ends[..fields].iter();
        let text = ends.map(|end| {
            let bytes = &self.output[start..*end];
            start = *end;
            std::str::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())
        });
        text.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{CountsRecord, FactRecord};
    use super::*;

    fn counts(header: &str, line: &str) -> Result<CountsRecord, String> {
        let defaults = Defaults::default();
        let mut parser = Parser::csv(Kind::Counts, defaults, header.as_bytes())?;
        match parser.parse(line.as_bytes())? {
            Record::Counts(record) => Ok(record),
            _ => Err("no counts".to_owned()),
        }
    }

    fn fact(header: &str, line: &str) -> Result<FactRecord, String> {
        let defaults = Defaults {
            etype: Some(Name::new("note").expect("a name")),
            ..Defaults::default()
        };
        match Parser::csv(Kind::Facts, defaults, header.as_bytes())?.parse(line.as_bytes())? {
            Record::Fact(record) => Ok(record),
            _ => Err("no fact".to_owned()),
        }
    }

    #[test]
    fn csv_counts_are_in_columns_of_metrics_or_in_rows() {
        let pairs = |record: CountsRecord| record.counts;
        let five_and_six = vec![("read".to_owned(), 5), ("comment".to_owned(), 6)];
        let wide = counts("etype,eid,read,comment,fav", "note,1,5,6,");
        assert_eq!(wide.map(pairs), Ok(five_and_six));
        let long = counts("etype,eid,metric,count", "note,1,read,5");
        assert_eq!(long.map(pairs), Ok(vec![("read".to_owned(), 5)]));
        let empty = counts("etype,eid,read", "note,1,");
        assert_eq!(empty.map(pairs), Ok(Vec::new()));
    }

    #[test]
    fn csv_facts_have_quotes_and_defaults() {
        let fact = fact("eid,uid,metric,ts", r#""1","u-2",like,1600000000000"#);
        let fact = fact.expect("a fact");
        assert_eq!(
            (fact.uid.as_str(), fact.ts),
            ("u-2", Some(1_600_000_000_000))
        );
    }

    #[test]
    fn malformed_csv_is_reported() {
        for (header, line, expected) in [
            ("etype,read", "note,1", "header: column eid is missing"),
            ("etype,eid,eid", "", "header: duplicate column eid"),
            ("etype,eid,a b", "", "header: unknown column a b"),
            (
                "etype,eid,count,read",
                "",
                "header: column count excludes columns of metrics",
            ),
            (
                "etype,eid,read",
                "note,1",
                "2 columns, but the header has 3",
            ),
            (
                "etype,eid,read",
                "note,1,2,3",
                "4 columns, but the header has 3",
            ),
            ("etype,eid,read", "note,1,x", "x is not an integer"),
            ("etype,eid,read", "note,\"1,2", "a quote is not closed"),
            ("etype,eid,read", "note,1,-2", "read: -2 is negative"),
            ("etype,eid,read", "note,,2", "eid is missing"),
        ] {
            assert_eq!(counts(header, line).expect_err(line), expected, "{line}");
        }
        let bad = counts("etype,eid,read", "note,a:b,1").expect_err("an ID");
        assert!(bad.starts_with("a:b: an ID has"), "{bad}");
        let unknown = fact("eid,uid,metric,read", "1,2,like,3").expect_err("a header");
        assert_eq!(unknown, "header: unknown column read");
    }
}
