//! Lists in bodies, read item by item: what has not been read yet costs nothing.

use crate::domain::error::Problem;
use crate::domain::text::brief;
use serde::de::DeserializeOwned;
use serde_json::Deserializer;
use serde_json::value::RawValue;

/// The items of a body.
#[derive(Clone)]
pub enum Items<'a> {
    /// A JSON array.
    Array(Array<'a>),
    /// Anything else is one item.
    One(Option<&'a [u8]>),
    /// NDJSON.
    Lines(Lines<'a>),
}

impl<'a> Items<'a> {
    /// Those of a JSON body.
    pub fn json(body: &'a [u8]) -> Items<'a> {
        let array = Array::new(body);
        array.map_or(Items::One(Some(body)), Items::Array)
    }

    /// How many there are. All of the body has been looked at then.
    ///
    /// # Errors
    /// It is malformed, or has more than `max`.
    pub fn count(self, max: usize) -> Result<usize, Problem> {
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
                // That it is JSON is found out here, as in an array.
                let raw = serde_json::from_slice::<&RawValue>(one);
                raw.map(|raw| raw.get().as_bytes()).map_err(malformed)
            }),
            Items::Lines(lines) => lines.next().map(Ok),
        }
    }
}

/// The lines of NDJSON. The last one may end without a line feed.
#[derive(Clone)]
pub struct Lines<'a>(Option<&'a [u8]>);

/// The lines of a body: at least one.
///
/// # Errors
/// It is empty.
pub fn lines(body: &[u8]) -> Result<Lines<'_>, Problem> {
    if body.is_empty() {
        return Err(Problem::Malformed("body: at least one line".to_owned()));
    }
    Ok(Lines(Some(body.strip_suffix(b"\n").unwrap_or(body))))
}

impl<'a> Iterator for Lines<'a> {
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

/// The items of a JSON array, as they stand there. After an error it ends.
#[derive(Clone)]
pub struct Array<'a> {
    rest: &'a [u8],
    is_first: bool,
    is_over: bool,
}

impl<'a> Array<'a> {
    /// `None`: the text does not begin one.
    pub fn new(text: &'a [u8]) -> Option<Array<'a>> {
        let rest = trimmed(text).strip_prefix(b"[")?;
        Some(Array {
            rest,
            is_first: true,
            is_over: false,
        })
    }

    fn item(&mut self) -> Result<Option<&'a [u8]>, Problem> {
        let rest = trimmed(self.rest);
        if let Some(rest) = rest.strip_prefix(b"]") {
            return match trimmed(rest).is_empty() {
                true => Ok(None),
                false => Err(Problem::Malformed(
                    "body: it goes on behind its end".to_owned(),
                )),
            };
        }
        let rest = match std::mem::take(&mut self.is_first) {
            true => rest,
            false => rest
                .strip_prefix(b",")
                .ok_or_else(|| Problem::Malformed("body: expected `,` or `]`".to_owned()))?,
        };
        let mut values = Deserializer::from_slice(rest).into_iter::<&RawValue>();
        let value = values.next();
        let value =
            value.ok_or_else(|| Problem::Malformed("body: it ends within an array".to_owned()))?;
        let value = value.map_err(malformed)?;
        self.rest = &rest[values.byte_offset()..];
        Ok(Some(value.get().as_bytes()))
    }
}

impl<'a> Iterator for Array<'a> {
    type Item = Result<&'a [u8], Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let item = self.item().transpose();
        self.is_over = !matches!(item, Some(Ok(_)));
        item
    }
}

/// Without the blanks that JSON allows before a value.
fn trimmed(text: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    let start = text.iter().position(|byte| !is_blank(byte));
    &text[start.unwrap_or(text.len())..]
}

fn malformed(why: serde_json::Error) -> Problem {
    Problem::Malformed(format!("body: {}", brief(&why)))
}

/// The items of a field that is a list.
///
/// # Errors
/// It is none, has more than `max`, or one of them is no `T`.
pub fn list<T: DeserializeOwned>(
    field: &str,
    raw: &RawValue,
    max: usize,
) -> Result<Vec<T>, Problem> {
    let array = Array::new(raw.get().as_bytes());
    let array = array.ok_or_else(|| Problem::Malformed(format!("body: {field}: not an array")))?;
    Items::Array(array.clone()).count(max)?;
    let item = |item: &[u8]| {
        let item = serde_json::from_slice(item);
        item.map_err(|why| Problem::Malformed(format!("body: {field}: {}", brief(&why))))
    };
    array.map(|found| found.and_then(item)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(items: Items<'_>) -> Result<Vec<&str>, String> {
        let text = |item: &'_ [u8]| std::str::from_utf8(item).map(str::len);
        let found: Result<Vec<&[u8]>, Problem> = items.collect();
        let found = found.map_err(|why| why.to_string())?;
        assert!(found.iter().all(|item| text(item).is_ok()));
        Ok(found
            .into_iter()
            .filter_map(|item| std::str::from_utf8(item).ok())
            .collect())
    }

    #[test]
    fn items_are_those_of_the_tree() {
        for text in [
            "[]",
            " [ ] \n",
            "[1]",
            "[1,2.5e3 ,\t\"a,]\\\"\",null]",
            "[{\"a\":[1,{\"b\":\"]\"}]},[[],[2]],true]",
            "{\"a\":[1,2]}",
            " 5 ",
        ] {
            let tree: serde_json::Value = serde_json::from_str(text).expect("JSON");
            let tree = match tree {
                serde_json::Value::Array(items) => items,
                one => vec![one],
            };
            let items = all(Items::json(text.as_bytes())).expect(text);
            let items: Vec<serde_json::Value> = items
                .into_iter()
                .map(|item| serde_json::from_str(item).expect("JSON"))
                .collect();
            assert_eq!(items, tree, "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused_as_a_whole() {
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
            let tree = serde_json::from_str::<serde_json::Value>(text);
            assert!(tree.is_err(), "{text}");
            assert!(all(Items::json(text.as_bytes())).is_err(), "{text}");
        }
        assert!(Items::json(b"[\"\xff\"]").count(9).is_err());
        assert!(Items::json(b"\"\xff\"").count(9).is_err());
    }

    #[test]
    fn no_more_is_read_than_allowed() {
        assert!(matches!(Items::json(b"[1,2,3]").count(3), Ok(3)));
        // What follows is not even looked at.
        let more = Items::json(b"[1,2,3,nonsense").count(2);
        assert!(matches!(more, Err(Problem::TooMany(2))));
    }

    #[test]
    fn lines_may_end_with_a_line_feed() {
        let found = |text: &'static str| lines(text.as_bytes()).map(Iterator::collect::<Vec<_>>);
        assert!(found("").is_err());
        assert!(found("\n").is_ok_and(|lines| lines == [b""]));
        assert!(found("a").is_ok_and(|lines| lines == [b"a"]));
        assert!(found("a\n\nb\n").is_ok_and(|lines| lines == [&b"a"[..], b"", b"b"]));
    }

    #[test]
    fn lists_of_fields_are_bounded() {
        let list = |text: &'static str| {
            let raw: &RawValue = serde_json::from_str(text).expect("JSON");
            list::<u8>("ids", raw, 2).map_err(|why| why.to_string())
        };
        assert_eq!(list("[1, 2]"), Ok(vec![1, 2]));
        assert_eq!(list("[]"), Ok(vec![]));
        assert!(list("[1,2,3]").is_err_and(|why| why.contains("at most 2")));
        assert!(list("{}").is_err_and(|why| why.contains("ids")));
        assert!(list("[\"a\"]").is_err_and(|why| why.contains("ids")));
    }
}
