//! Lists in request bodies, parsed item by item, so that memory is used only for the items that have been parsed.

use crate::domain::error::Problem;
use crate::domain::text::brief;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Deserializer;
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// NDJSON: one item per line, at least one.
#[derive(ToSchema)]
#[schema(min_items = 1)]
#[allow(dead_code, reason = "schema only: bodies are parsed line by line")]
pub struct Ndjson<T: ToSchema>(Vec<T>);

/// The items of a body.
#[derive(Clone)]
pub enum Items<'a> {
    /// The elements of a JSON array.
    Array(JsonArray<'a>),
    /// A single JSON value.
    One(Option<&'a [u8]>),
    /// The lines of NDJSON.
    Lines(NdjsonLines<'a>),
}

impl<'a> Items<'a> {
    /// The elements of a body that is a JSON array; the body itself if it is another JSON value.
    pub fn json(body: &'a [u8]) -> Items<'a> {
        let array = JsonArray::new(body);
        array.map_or(Items::One(Some(body)), Items::Array)
    }

    /// Counts and validates the items.
    ///
    /// # Errors
    /// The body is malformed, or has more than `max` items. Items beyond `max` are not parsed.
    pub fn count_up_to(self, max: usize) -> Result<usize, Problem> {
        let mut count = 0;
        for item in self {
            item?;
            count += 1;
            if count > max {
                return Err(Problem::TooMany(max));
            }
        }
        Ok(count)
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<&'a [u8], Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Items::Array(array) => array.next(),
            Items::One(one) => one.take().map(|one| {
                // Validates the JSON, as for the elements of an array.
                let raw = serde_json::from_slice::<&RawValue>(one);
                raw.map(|raw| raw.get().as_bytes()).map_err(malformed)
            }),
            Items::Lines(lines) => lines.next().map(Ok),
        }
    }
}

/// The lines of NDJSON. The line feed after the last line is optional.
#[derive(Clone)]
pub struct NdjsonLines<'a>(Option<&'a [u8]>);

/// The lines of a body.
///
/// # Errors
/// The body is empty.
pub fn ndjson_lines(body: &[u8]) -> Result<NdjsonLines<'_>, Problem> {
    if body.is_empty() {
        return Err(Problem::Malformed(
            "body: at least one line is required".to_owned(),
        ));
    }
    Ok(NdjsonLines(Some(body.strip_suffix(b"\n").unwrap_or(body))))
}

impl<'a> Iterator for NdjsonLines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.0?;
        let end = rest.iter().position(|byte| *byte == b'\n');
        let (line, rest) = match end {
            Some(end) => (&rest[..end], Some(&rest[end + 1..])),
            None => (rest, None),
        };
        self.0 = rest;
        Some(line)
    }
}

/// The unparsed elements of a JSON array. Iteration ends after an error.
#[derive(Clone)]
pub struct JsonArray<'a> {
    rest: &'a [u8],
    is_first: bool,
    is_finished: bool,
}

impl<'a> JsonArray<'a> {
    /// Returns `None` if the text does not start with an array.
    pub fn new(text: &'a [u8]) -> Option<JsonArray<'a>> {
        let rest = trim_start(text).strip_prefix(b"[")?;
        Some(JsonArray {
            rest,
            is_first: true,
            is_finished: false,
        })
    }

    /// Moves to the next element and returns the text that starts with it; `None` at the end.
    fn seek_element(&mut self) -> Result<Option<&'a [u8]>, Problem> {
        let rest = trim_start(self.rest);
        if let Some(rest) = rest.strip_prefix(b"]") {
            return match trim_start(rest).is_empty() {
                true => Ok(None),
                false => Err(Problem::Malformed(
                    "body: trailing characters after the array".to_owned(),
                )),
            };
        }
        let rest = match std::mem::take(&mut self.is_first) {
            true => rest,
            false => rest
                .strip_prefix(b",")
                .ok_or_else(|| Problem::Malformed("body: expected `,` or `]`".to_owned()))?,
        };
        Ok(Some(rest))
    }

    /// Parses the next element.
    fn parse_element<T: Deserialize<'a>>(&mut self) -> Result<Option<T>, Problem> {
        let Some(rest) = self.seek_element()? else {
            return Ok(None);
        };
        let mut values = Deserializer::from_slice(rest).into_iter::<T>();
        let value = values.next();
        let value =
            value.ok_or_else(|| Problem::Malformed("body: unterminated array".to_owned()))?;
        let value = value.map_err(malformed)?;
        self.rest = &rest[values.byte_offset()..];
        Ok(Some(value))
    }

    /// Parses all elements. Returns `None` if there are more than `max`, or one of them is invalid.
    fn parse_all<T: Deserialize<'a>>(mut self, max: usize) -> Option<Vec<T>> {
        let mut elements = Vec::new();
        while let Some(element) = self.parse_element().ok()? {
            if elements.len() == max {
                return None;
            }
            elements.push(element);
        }
        Some(elements)
    }
}

impl<'a> Iterator for JsonArray<'a> {
    type Item = Result<&'a [u8], Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_finished {
            return None;
        }
        let element = self.parse_element::<&RawValue>();
        let element = element.map(|element| element.map(|raw| raw.get().as_bytes()));
        let element = element.transpose();
        self.is_finished = !matches!(element, Some(Ok(_)));
        element
    }
}

/// Strips leading JSON whitespace.
fn trim_start(text: &[u8]) -> &[u8] {
    let is_whitespace = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    let start = text.iter().position(|byte| !is_whitespace(byte));
    &text[start.unwrap_or(text.len())..]
}

fn malformed(error: serde_json::Error) -> Problem {
    Problem::Malformed(format!("body: {}", brief(&error)))
}

/// Parses a field that is a list.
///
/// # Errors
/// The field is not an array, has more than `max` elements, or an element is invalid.
pub fn parse_list<T: DeserializeOwned>(
    field: &str,
    raw: &RawValue,
    max: usize,
) -> Result<Vec<T>, Problem> {
    let array = JsonArray::new(raw.get().as_bytes());
    let array = array.ok_or_else(|| Problem::Malformed(format!("body: {field}: not an array")))?;
    if let Some(elements) = array.clone().parse_all(max) {
        return Ok(elements);
    }
    // A list that is too long is reported before an invalid element.
    Items::Array(array.clone()).count_up_to(max)?;
    let parse = |element: &[u8]| {
        let value = serde_json::from_slice(element);
        value.map_err(|error| Problem::Malformed(format!("body: {field}: {}", brief(&error))))
    };
    array.map(|element| element.and_then(parse)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(items: Items<'_>) -> Result<Vec<&str>, String> {
        let items: Result<Vec<&[u8]>, Problem> = items.collect();
        let items = items.map_err(|error| error.to_string())?;
        let texts = items
            .into_iter()
            .map(|item| std::str::from_utf8(item).expect("UTF-8"));
        Ok(texts.collect())
    }

    #[test]
    fn items_equal_the_parsed_elements() {
        for text in [
            "[]",
            " [ ] \n",
            "[1]",
            "[1,2.5e3 ,\t\"a,]\\\"\",null]",
            "[{\"a\":[1,{\"b\":\"]\"}]},[[],[2]],true]",
            "{\"a\":[1,2]}",
            " 5 ",
        ] {
            let value: serde_json::Value = serde_json::from_str(text).expect("JSON");
            let expected = match value {
                serde_json::Value::Array(elements) => elements,
                one => vec![one],
            };
            let items = all(Items::json(text.as_bytes())).expect(text);
            let items: Vec<serde_json::Value> = items
                .into_iter()
                .map(|item| serde_json::from_str(item).expect("JSON"))
                .collect();
            assert_eq!(items, expected, "{text}");
        }
    }

    #[test]
    fn invalid_json_is_rejected() {
        for text in [
            "",
            "[",
            "[1",
            "[1,",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[1]]",
            "[1] 2",
            "1 2",
            "{",
            "[\"a]",
            "[\"\u{1}\"]",
            "[tru]",
            "[01]",
            "[1]\u{0}",
            "]",
            "[}",
            "[1]\u{c}",
            "\u{c}[1]",
            "[\u{c}1]",
        ] {
            let value = serde_json::from_str::<serde_json::Value>(text);
            assert!(value.is_err(), "{text}");
            assert!(all(Items::json(text.as_bytes())).is_err(), "{text}");
        }
        assert!(Items::json(b"[\"\xff\"]").count_up_to(9).is_err());
        assert!(Items::json(b"\"\xff\"").count_up_to(9).is_err());
    }

    #[test]
    fn items_beyond_the_maximum_are_not_parsed() {
        assert!(matches!(Items::json(b"[1,2,3]").count_up_to(3), Ok(3)));
        let more = Items::json(b"[1,2,3,nonsense").count_up_to(2);
        assert!(matches!(more, Err(Problem::TooMany(2))));
    }

    #[test]
    fn the_last_line_feed_is_optional() {
        let lines =
            |text: &'static str| ndjson_lines(text.as_bytes()).map(Iterator::collect::<Vec<_>>);
        assert!(lines("").is_err());
        assert!(lines("\n").is_ok_and(|lines| lines == [b""]));
        assert!(lines("a").is_ok_and(|lines| lines == [b"a"]));
        assert!(lines("a\n\nb\n").is_ok_and(|lines| lines == [&b"a"[..], b"", b"b"]));
    }

    #[test]
    fn the_length_of_lists_is_limited() {
        let list = |text: &'static str| {
            let raw: &RawValue = serde_json::from_str(text).expect("JSON");
            parse_list::<u8>("ids", raw, 2).map_err(|error| error.to_string())
        };
        assert_eq!(list("[1, 2]"), Ok(vec![1, 2]));
        assert_eq!(list("[]"), Ok(vec![]));
        assert!(list("[1,2,3]").is_err_and(|error| error.contains("at most 2")));
        assert!(list("{}").is_err_and(|error| error.contains("ids")));
        assert!(list("[\"a\"]").is_err_and(|error| error.contains("ids")));
    }
}
