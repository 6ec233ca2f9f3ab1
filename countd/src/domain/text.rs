//! Truncation of client input for messages.

use std::fmt::{self, Display, Write};

/// The maximum length of a message that quotes client input, in bytes.
const MAX_MESSAGE: usize = 256;

/// An error message, truncated to 256 bytes. Parsers quote their input, which may be as long as a request body.
pub fn brief(error: &impl Display) -> String {
    let mut message = TruncatedMessage(String::new());
    // The write fails when the message is truncated.
    if write!(message, "{error}").is_err() {
        message.0.push_str(" ...");
    }
    message.0
}

struct TruncatedMessage(String);

impl fmt::Write for TruncatedMessage {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let remaining = MAX_MESSAGE - self.0.len();
        let kept = truncate(text, remaining);
        self.0.push_str(kept);
        if kept.len() < text.len() {
            Err(fmt::Error)
        } else {
            Ok(())
        }
    }
}

/// The longest prefix of `text` that has at most `bytes` bytes and ends between characters.
pub fn truncate(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The first 64 characters of a client's text.
pub fn shorten(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_truncated_between_characters() {
        assert_eq!(brief(&"short"), "short");
        let exact = "x".repeat(MAX_MESSAGE);
        assert_eq!(brief(&exact), exact);
        let long = brief(&"\u{20ac}".repeat(100_000));
        assert_eq!(long, format!("{} ...", "\u{20ac}".repeat(85)));
    }
}
