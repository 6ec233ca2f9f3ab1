//! Reads a file in chunks. Chunks have the same limits in each run, so that a resumed import sends the same parts again.

use super::super::error::ImportError;
use super::super::format::{Format, Kind, Parser};
use super::super::lines::{Line, Lines, MAX_LINE};
use super::super::record::{Defaults, Item, Origin};
use super::chunk::{Chunk, Chunks, FilePosition, Position, Sender, channel};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The maximum number of lines of a chunk. Part of the stored state of an import: a resumed import must send the same parts.
const CHUNK_LINES: usize = 8192;
/// The size of a chunk after which it ends, in bytes.
const CHUNK_BYTES: u64 = 2 * 1024 * 1024;

/// A file.
#[derive(Clone, Debug)]
pub struct FileSource {
    /// Its path.
    pub path: PathBuf,
    /// Its format.
    pub format: Format,
    /// What it contains.
    pub kind: Kind,
    /// Values for fields that its records do not have.
    pub defaults: Defaults,
}

/// Where a resumed import continues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resume {
    /// The number of the last chunk before.
    pub number: u64,
    /// The offset.
    pub offset: u64,
    /// The number of lines before.
    pub line: u64,
    /// The offset up to which lines were sent.
    pub sent: u64,
    /// The hash of the file up to there.
    pub hash: String,
}

struct Reader {
    lines: Lines,
    parser: Parser,
    name: Arc<str>,
    number: u64,
}

impl FileSource {
    fn name(&self) -> Arc<str> {
        self.path.to_string_lossy().into()
    }

    fn error(&self, error: io::Error) -> ImportError {
        ImportError::File {
            file: self.path.to_string_lossy().into_owned(),
            error,
        }
    }

    /// The size of the file in bytes.
    ///
    /// # Errors
    /// The file cannot be opened, or is not a regular file.
    pub fn size(&self) -> Result<u64, ImportError> {
        Lines::open(&self.path)
            .map(|(_, size)| size)
            .map_err(|error| self.error(error))
    }

    /// Starts to read the file.
    pub fn open(&self, resume: Option<Resume>) -> Chunks {
        let (sender, chunks) = channel();
        let source = self.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(error) = source.send(resume, &sender) {
                // The receiver has stopped.
                let _ = sender.blocking_send(Err(error));
            }
        });
        chunks
    }

    fn send(&self, resume: Option<Resume>, sender: &Sender) -> Result<(), ImportError> {
        let (mut lines, _) = Lines::open(&self.path).map_err(|error| self.error(error))?;
        let parser = self.parser(&mut lines)?;
        let mut number = 0;
        if let Some(resume) = resume.filter(|resume| resume.sent > 0) {
            let Resume {
                offset, line, sent, ..
            } = resume;
            let hash = match offset {
                // The header stays read.
                0 => Lines::open(&self.path).and_then(|(mut all, _)| all.resume(0, 0, sent)),
                _ => lines.resume(offset, line, sent),
            };
            if hash.map_err(|error| self.error(error))? != Some(resume.hash) {
                return Err(ImportError::Refused(format!(
                    "{} has changed since the import started: the first {} bytes, which were read, differ",
                    self.path.display(),
                    resume.sent
                )));
            }
            number = resume.number;
        }
        let mut reader = Reader {
            lines,
            parser,
            name: self.name(),
            number,
        };
        loop {
            let chunk = reader.next_chunk().map_err(|error| self.error(error))?;
            let is_last = match &chunk.position {
                Position::File(position) => position.start == position.end,
                Position::Live(_) => false,
            };
            if sender.blocking_send(Ok(chunk)).is_err() || is_last {
                return Ok(());
            }
        }
    }

    fn parser(&self, lines: &mut Lines) -> Result<Parser, ImportError> {
        if self.format == Format::Ndjson {
            return Ok(Parser::ndjson(self.kind, self.defaults.clone()));
        }
        let header = match lines.next().map_err(|error| self.error(error))? {
            Some(Line::Text(header)) => header,
            _ => b"",
        };
        let parser = Parser::csv(self.kind, self.defaults.clone(), header);
        parser.map_err(|problem| ImportError::Invalid {
            origin: Origin::Line(self.name(), 1),
            problem,
        })
    }
}

impl Reader {
    /// The next chunk. It is empty at the end of the file.
    fn next_chunk(&mut self) -> io::Result<Chunk> {
        let (start, lines_before) = (self.lines.offset, self.lines.line);
        let (mut items, mut invalid) = (Vec::new(), Vec::new());
        for _ in 0..CHUNK_LINES {
            if self.lines.offset - start >= CHUNK_BYTES {
                break;
            }
            let number = self.lines.line + 1;
            let Some(line) = self.lines.next()? else {
                break;
            };
            let record = match line {
                Line::Text(text) if text.trim_ascii().is_empty() => continue,
                Line::Text(text) => self.parser.parse(text),
                Line::TooLong => Err(format!("a line has at most {MAX_LINE} bytes")),
            };
            let origin = Origin::Line(Arc::clone(&self.name), number);
            match record {
                Ok(record) => items.push(Item { origin, record }),
                Err(problem) => invalid.push((origin, problem)),
            }
        }
        self.number += 1;
        let position = Position::File(FilePosition {
            number: self.number,
            start,
            lines_before,
            end: self.lines.offset,
            hash: self.lines.hash(),
        });
        Ok(Chunk {
            items,
            invalid,
            position,
        })
    }
}
