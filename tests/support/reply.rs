//! Formats replies as an interactive redis-cli does.

use crate::line::quote;
use redis::{ServerError, Value};
use std::fmt::Write;

/// Formats a reply as redis-cli does on a terminal, without the final line feed.
///
/// `(integer) 1`, `"text"`, `OK`, `(nil)`, `(error) ERR ...`, `(empty array)`, `1) ...`; in RESP3 also maps
/// (`1# "k" => v`), sets (`1~ v`), `(true)` and `(double) 1.5`.
pub fn format(value: &Value) -> String {
    nested(value, "")
}

/// The text of an error reply, as the server sent it.
pub fn error_text(error: &ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}

fn nested(value: &Value, indent: &str) -> String {
    match value {
        Value::Nil => "(nil)".into(),
        Value::Int(n) => format!("(integer) {n}"),
        Value::BulkString(bytes) => quote(bytes),
        Value::SimpleString(text) => text.clone(),
        Value::Okay => "OK".into(),
        Value::Double(n) => format!("(double) {n}"),
        Value::Boolean(flag) => format!("({flag})"),
        Value::VerbatimString { text, .. } => text.clone(),
        Value::BigNumber(digits) => String::from_utf8_lossy(digits).into_owned(),
        Value::ServerError(error) => format!("(error) {}", error_text(error)),
        Value::Attribute { data, .. } => nested(data, indent),
        Value::Array(items) => list(items, ')', "(empty array)", indent),
        Value::Set(items) => list(items, '~', "(empty set)", indent),
        Value::Push { data, .. } => list(data, ')', "(empty push)", indent),
        Value::Map(pairs) => map(pairs, indent),
        other => panic!("a reply of an unknown kind: {other:?}"),
    }
}

fn list(items: &[Value], mark: char, empty: &str, indent: &str) -> String {
    if items.is_empty() {
        return empty.into();
    }
    entries(items.len(), mark, indent, |i, inner| {
        nested(&items[i], inner)
    })
}

fn map(pairs: &[(Value, Value)], indent: &str) -> String {
    if pairs.is_empty() {
        return "(empty hash)".into();
    }
    entries(pairs.len(), '#', indent, |i, inner| {
        let (key, value) = &pairs[i];
        let text = nested(value, inner);
        // A value of several lines begins on a new line.
        let line_break = match text.contains('\n') {
            true => format!("\n{inner}"),
            false => String::new(),
        };
        format!("{} => {line_break}{text}", nested(key, inner))
    })
}

/// Numbered lines. Entries of several lines are indented by the width of the number.
fn entries(
    count: usize,
    mark: char,
    indent: &str,
    entry: impl Fn(usize, &str) -> String,
) -> String {
    let width = count.to_string().len();
    let inner = format!("{indent}{:1$}", "", width + 2);
    let mut out = String::new();
    for i in 0..count {
        if i > 0 {
            out.push('\n');
            out.push_str(indent);
        }
        let number = i + 1;
        write!(out, "{number:width$}{mark} ").expect("writing to a String cannot fail");
        out.push_str(&entry(i, &inner));
    }
    out
}

/// The bytes of a bulk or simple string.
///
/// # Panics
/// When the reply is not a string.
pub fn bytes(value: Value) -> Vec<u8> {
    match value {
        Value::BulkString(bytes) => bytes,
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.into_bytes(),
        Value::Okay => b"OK".to_vec(),
        other => panic!("expected a string, got {}", format(&other)),
    }
}

/// [`bytes`] as text.
///
/// # Panics
/// When the reply is not a string, or not UTF-8.
pub fn text(value: Value) -> String {
    String::from_utf8(bytes(value)).expect("the reply is text")
}

/// The number in an integer reply, or in a string of decimal digits.
///
/// # Panics
/// When the reply is not a number.
pub fn int(value: Value) -> i64 {
    match value {
        Value::Int(n) => n,
        other => text(other).parse().expect("the reply is a number"),
    }
}

/// The elements of an array, a set, or a map (key, value, key, value, ...).
///
/// # Panics
/// When the reply is none of these.
pub fn array(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        Value::Map(pairs) => pairs.into_iter().flat_map(|(k, v)| [k, v]).collect(),
        other => panic!("expected an array, got {}", format(&other)),
    }
}
