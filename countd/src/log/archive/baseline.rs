//! Baselines: files with the counters of all entities, as of an offset of each partition.
//!
//! A baseline is a file of frames like a segment. The last frame has the offsets: without it, the file is incomplete.

use super::codec::{put_frame, take_frame};
use super::error::ArchiveError;
use crate::domain::event::now_ms;
use crate::domain::ids::{Id, Name};
use crate::domain::keys::Partition;
use crate::domain::progress::Update;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// The first bytes of a baseline.
const MAGIC: &[u8] = b"CNTDBAS1";
/// How the names of baselines end.
const SUFFIX: &str = ".baseline";
/// The maximum size of a compressed frame in bytes. A longer one is damaged.
const MAX_FRAME: u32 = 64 << 20;
/// The size of the header of a frame.
const HEADER: usize = 8;

/// Counters of entities of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaselinePage {
    /// The partition.
    pub partition: Partition,
    /// The schema of the counters.
    pub schema: Name,
    /// The type of the entities.
    pub etype: Name,
    /// The entities: index and value of each counter that is not 0.
    pub rows: Vec<(Id, Vec<(u16, u64)>)>,
}

/// Up to which records of the topic counters are included, for data with a topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicPositions {
    /// The ID of the history of the topic.
    pub history: String,
    /// The mark that the baseline has left in Redis.
    pub mark: String,
    /// The offset of each partition: the counters include all its records before it.
    pub offsets: BTreeMap<Partition, u64>,
}

/// A frame of a baseline.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Frame {
    Page(BaselinePage),
    Topic(TopicPositions),
    /// The offset of each partition: the counters include all entries before it.
    Offsets(BTreeMap<Partition, u64>),
}

/// Writes a baseline.
pub struct BaselineWriter {
    path: PathBuf,
    name: String,
    file: File,
    level: i32,
}

impl BaselineWriter {
    /// Begins a baseline in the directory of an archive.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn create(dir: &Path, level: i32) -> Result<BaselineWriter, ArchiveError> {
        std::fs::create_dir_all(dir).map_err(ArchiveError::file(dir))?;
        let name = format!("{:013}-{:08x}{SUFFIX}", now_ms(), fastrand::u32(..));
        let path = dir.join(format!("{name}.part"));
        let create = || {
            let mut file = OpenOptions::new()
                .create_new(true)
                .write(true)
                .open(&path)?;
            file.write_all(MAGIC)?;
            Ok(file)
        };
        let file = create().map_err(ArchiveError::file(&path))?;
        Ok(BaselineWriter {
            path,
            name,
            file,
            level,
        })
    }

    fn write(&mut self, frame: &Frame) -> Result<(), ArchiveError> {
        let write = |file: &mut File, level| {
            let mut bytes = Vec::new();
            put_frame(&mut bytes, &serde_json::to_vec(frame)?, level)?;
            file.write_all(&bytes)
        };
        write(&mut self.file, self.level).map_err(ArchiveError::file(&self.path))
    }

    /// Adds counters.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, page: BaselinePage) -> Result<(), ArchiveError> {
        self.write(&Frame::Page(page))
    }

    /// Ends the baseline, durably. Returns its name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(
        mut self,
        offsets: BTreeMap<Partition, u64>,
        topic: Option<TopicPositions>,
    ) -> Result<String, ArchiveError> {
        if let Some(topic) = topic {
            self.write(&Frame::Topic(topic))?;
        }
        self.write(&Frame::Offsets(offsets))?;
        let dir = self.path.parent().map(Path::to_owned).unwrap_or_default();
        let finish = || {
            self.file.sync_all()?;
            std::fs::rename(&self.path, dir.join(&self.name))?;
            File::open(&dir)?.sync_all()
        };
        finish().map_err(ArchiveError::file(&self.path))?;
        Ok(self.name)
    }
}

/// A baseline that is read.
pub struct Baseline {
    path: PathBuf,
    file: BufReader<File>,
    /// The size of the file in bytes when it was opened.
    size: u64,
    at: u64,
    /// The offset of each partition, once all counters are read.
    pub offsets: Option<BTreeMap<Partition, u64>>,
    /// The offsets in the topic, if the data has one, once all counters are read.
    pub topic: Option<TopicPositions>,
}

impl Baseline {
    /// Opens a baseline in the directory of an archive.
    ///
    /// # Errors
    /// There is no such baseline.
    pub fn open(dir: &Path, name: &str) -> Result<Baseline, ArchiveError> {
        let path = dir.join(name);
        if Path::new(name).components().count() != 1 || !name.ends_with(SUFFIX) {
            return Err(ArchiveError::damaged(
                &path,
                "it is not the name of a baseline",
            ));
        }
        let open = || {
            let mut file = BufReader::new(File::open(&path)?);
            let mut magic = [0; MAGIC.len()];
            file.read_exact(&mut magic)?;
            let size = file.get_ref().metadata()?.len();
            Ok((file, size, magic))
        };
        let (file, size, magic) = open().map_err(ArchiveError::file(&path))?;
        if magic != MAGIC {
            return Err(ArchiveError::damaged(&path, "it is not a baseline"));
        }
        Ok(Baseline {
            path,
            file,
            size,
            at: MAGIC.len() as u64,
            offsets: None,
            topic: None,
        })
    }

    /// The size of the file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// How many bytes of it were read. As many as it has, once all counters are read.
    pub fn read(&self) -> u64 {
        self.at
    }

    /// The progress of reading it, in bytes.
    pub fn progress<'a>(&self, step: &'a str) -> Update<'a> {
        Update::new(step, self.at, "bytes").of(self.size)
    }

    /// The next counters; `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn next_page(&mut self) -> Result<Option<BaselinePage>, ArchiveError> {
        if self.offsets.is_some() {
            return Ok(None);
        }
        let frame = self.next_frame();
        let frame = frame.map_err(|reason| {
            ArchiveError::damaged(
                &self.path,
                format!("the frame at byte {}: {reason}", self.at),
            )
        });
        let (frame, bytes) = frame?;
        self.at += bytes;
        match frame {
            Frame::Page(page) => Ok(Some(page)),
            Frame::Topic(topic) => {
                self.topic = Some(topic);
                self.next_page()
            }
            Frame::Offsets(offsets) => {
                self.offsets = Some(offsets);
                Ok(None)
            }
        }
    }

    fn next_frame(&mut self) -> Result<(Frame, u64), String> {
        let mut bytes = vec![0; HEADER];
        let header = self.file.read_exact(&mut bytes);
        header.map_err(|_| "the file is cut off".to_owned())?;
        let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        if length > MAX_FRAME {
            return Err("a frame is too long".to_owned());
        }
        // The length may be wrong, so memory is taken for what the file has.
        let mut file = (&mut self.file).take(length.into());
        file.read_to_end(&mut bytes)
            .map_err(|error| error.to_string())?;
        let raw = take_frame(&mut bytes.as_slice())?;
        let frame = serde_json::from_slice(&raw).map_err(|error| error.to_string())?;
        Ok((frame, bytes.len() as u64))
    }
}

/// The names of the baselines in the directory of an archive, the oldest first.
///
/// # Errors
/// The directory cannot be read.
pub fn baselines(dir: &Path) -> Result<Vec<String>, ArchiveError> {
    let list = || -> std::io::Result<Vec<String>> {
        let mut names = Vec::new();
        for file in std::fs::read_dir(dir)? {
            if let Ok(name) = file?.file_name().into_string()
                && name.ends_with(SUFFIX)
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    };
    list().map_err(ArchiveError::file(dir))
}
