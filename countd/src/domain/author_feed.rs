//! Counters of authors that metrics feed.

use super::ids::{Invalid, Name};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A metric that feeds a counter of authors. Its text is `metric>counter`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AuthorFeed {
    /// The metric.
    pub metric: Name,
    /// The counter. `None` in data of a version that knew one counter of each metric: the first one that the metric feeds.
    pub counter: Option<Name>,
}

impl fmt::Display for AuthorFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.counter {
            Some(counter) => write!(f, "{}>{counter}", self.metric),
            None => self.metric.fmt(f),
        }
    }
}

impl TryFrom<String> for AuthorFeed {
    type Error = Invalid;

    fn try_from(text: String) -> Result<AuthorFeed, Invalid> {
        let (metric, counter) = match text.split_once('>') {
            Some((metric, counter)) => (metric, Some(counter)),
            None => (text.as_str(), None),
        };
        Ok(AuthorFeed {
            metric: Name::new(metric)?,
            counter: counter.map(Name::new).transpose()?,
        })
    }
}

impl From<AuthorFeed> for String {
    fn from(feed: AuthorFeed) -> String {
        feed.to_string()
    }
}
