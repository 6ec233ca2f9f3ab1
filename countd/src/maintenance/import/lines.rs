//! Reads a file line by line, with offsets and a hash of what was read.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

/// The maximum length of a line, in bytes.
pub const MAX_LINE: usize = 64 * 1024;
const BUFFER_BYTES: usize = 1024 * 1024;

/// The lines of a file.
pub struct Lines {
    file: BufReader<File>,
    text: Vec<u8>,
    /// The number of bytes that were read.
    pub offset: u64,
    /// The number of lines that were read.
    pub line: u64,
    hash: Xxh3,
}

/// A line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// Its text, without the line break.
    Text(&'a [u8]),
    /// It is longer than [`MAX_LINE`].
    TooLong,
}

impl Lines {
    /// Opens a file. Also returns its size.
    ///
    /// # Errors
    /// The file cannot be opened, or is not a regular file.
    pub fn open(path: &Path) -> io::Result<(Lines, u64)> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            let problem = "not a regular file: it could not be read again";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let lines = Lines {
            file: BufReader::with_capacity(BUFFER_BYTES, file),
            text: Vec::new(),
            offset: 0,
            line: 0,
            hash: Xxh3::new(),
        };
        Ok((lines, metadata.len()))
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let is_first = self.offset == 0;
        if !self.read_part()? {
            return Ok(None);
        }
        self.line += 1;
        if self.text.last() != Some(&b'\n') && self.text.len() > MAX_LINE {
            while self.text.last() != Some(&b'\n') && self.read_part()? {}
            return Ok(Some(Line::TooLong));
        }
        let mut text = self.text.as_slice();
        text = text.strip_suffix(b"\n").unwrap_or(text);
        text = text.strip_suffix(b"\r").unwrap_or(text);
        if is_first {
            // The byte-order mark of UTF-8.
            text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        }
        Ok(Some(Line::Text(text)))
    }

    /// Reads up to the end of the line or [`MAX_LINE`] bytes and a line break. Returns false at the end of the file.
    fn read_part(&mut self) -> io::Result<bool> {
        self.text.clear();
        let mut limited = self.file.by_ref().take(MAX_LINE as u64 + 1);
        limited.read_until(b'\n', &mut self.text)?;
        self.hash.update(&self.text);
        self.offset += self.text.len() as u64;
        Ok(!self.text.is_empty())
    }

    /// The hash of all bytes that were read.
    pub fn hash(&self) -> String {
        format!("{:032x}", self.hash.digest128())
    }

    /// Continues at an offset and a line. Returns the hash of the bytes before `sent`, which is not before `offset`; `None` if the
    /// file is shorter.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn resume(&mut self, offset: u64, line: u64, sent: u64) -> io::Result<Option<String>> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut hash = Xxh3::new();
        if !self.hash_bytes(&mut hash, offset)? {
            return Ok(None);
        }
        self.hash = hash.clone();
        if !self.hash_bytes(&mut hash, sent.saturating_sub(offset))? {
            return Ok(None);
        }
        self.file.seek(SeekFrom::Start(offset))?;
        (self.offset, self.line) = (offset, line);
        Ok(Some(format!("{:032x}", hash.digest128())))
    }

    fn hash_bytes(&mut self, hash: &mut Xxh3, mut bytes: u64) -> io::Result<bool> {
        while bytes > 0 {
            let part = self.file.fill_buf()?;
            if part.is_empty() {
                return Ok(false);
            }
            let length = part.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
            hash.update(&part[..length]);
            self.file.consume(length);
            bytes -= length as u64;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    struct TemporaryFile(PathBuf);

    impl TemporaryFile {
        fn new(name: &str, text: &[u8]) -> TemporaryFile {
            let path = std::env::temp_dir().join(format!("lines-{name}-{}", std::process::id()));
            std::fs::write(&path, text).expect("a temporary file can be written");
            TemporaryFile(path)
        }
    }

    impl Drop for TemporaryFile {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn lines_end_with_any_line_break_and_have_a_maximum_length() {
        let mut text = b"\xef\xbb\xbfone\r\n\ntwo\n".to_vec();
        for length in [MAX_LINE - 1, MAX_LINE, MAX_LINE + 1, 3 * MAX_LINE] {
            text.extend(std::iter::repeat_n(b'x', length));
            text.push(b'\n');
        }
        text.extend(b"end");
        let file = TemporaryFile::new("breaks", &text);
        let (mut lines, size) = Lines::open(&file.0).expect("a file");
        let mut found = Vec::new();
        while let Some(line) = lines.next().expect("a line") {
            found.push(match line {
                Line::Text(text) if text.len() < 10 => String::from_utf8_lossy(text).into_owned(),
                Line::Text(text) => text.len().to_string(),
                Line::TooLong => "too long".to_owned(),
            });
        }
        let (short, max) = ((MAX_LINE - 1).to_string(), MAX_LINE.to_string());
        let long = "too long";
        assert_eq!(found, ["one", "", "two", &short, &max, long, long, "end"]);
        assert_eq!(
            (lines.offset, lines.line, size),
            (size, 8, text.len() as u64)
        );
    }

    #[test]
    fn a_resumed_file_has_the_same_lines_and_hash() {
        let text = b"one\ntwo\nthree\nfour\n";
        let file = TemporaryFile::new("resume", text);
        let open = || Lines::open(&file.0).expect("a file").0;
        let mut all = open();
        all.next().expect("a line");
        let (offset, line) = (all.offset, all.line);
        all.next().expect("a line");
        let (sent, sent_hash) = (all.offset, all.hash());
        while all.next().expect("a line").is_some() {}
        let mut resumed = open();
        let found = resumed.resume(offset, line, sent).expect("a file");
        assert_eq!(found, Some(sent_hash));
        assert_eq!(resumed.next().expect("a line"), Some(Line::Text(b"two")));
        while resumed.next().expect("a line").is_some() {}
        assert_eq!((resumed.hash(), resumed.line), (all.hash(), 4));
        assert_eq!(open().resume(4, 1, 100).expect("a file"), None);
    }
}
