//! Texts of clients, shortened for messages.

use std::fmt::{self, Display, Write};

/// The longest message about what a client sent, in bytes.
const MAX_MESSAGE: usize = 256;

/// An error's message, at most 256 bytes of it: parsers quote what they read, which may be as long as a body.
pub fn brief(error: &impl Display) -> String {
    let mut message = Brief(String::new());
    // It fails where the message is cut off.
    if write!(message, "{error}").is_err() {
        message.0.push_str(" ...");
    }
    message.0
}

struct Brief(String);

impl fmt::Write for Brief {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MAX_MESSAGE - self.0.len();
        let kept = start(text, room);
        self.0.push_str(kept);
        if kept.len() < text.len() {
            Err(fmt::Error)
        } else {
            Ok(())
        }
    }
}

/// The longest start of a text that has at most so many bytes.
pub fn start(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The start of a text that somebody sent.
pub fn shorten(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_cut_between_characters() {
        assert_eq!(brief(&"short"), "short");
        let exact = "x".repeat(MAX_MESSAGE);
        assert_eq!(brief(&exact), exact);
        let long = brief(&"\u{20ac}".repeat(100_000));
        assert_eq!(long, format!("{} ...", "\u{20ac}".repeat(85)));
    }
}
