//! Whether the topic of the data, with the copies of its streams, has every change of its counters, from the first one on. A baseline belongs
//! to one history: in a later one, changes between both can be missing.

use super::error::TopicError;
use crate::domain::error::StoreError;
use crate::domain::keys::Partition;
use crate::log::published;
use crate::redis::store::Store;

/// The field of the stored layout with the history.
const FIELD: &str = "topic_history";
/// Stands for a history that begins with the data.
const COMPLETE: &str = "complete";
/// Stands for one that begins later.
const PARTIAL: &str = "partial";

/// The history of the counters in the topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicHistory {
    /// Its random ID.
    pub id: String,
    /// Whether it begins with the data.
    pub is_complete: bool,
}

impl TopicHistory {
    fn new(is_complete: bool) -> TopicHistory {
        TopicHistory {
            id: format!("{:016x}", fastrand::u64(..)),
            is_complete,
        }
    }

    fn to_field(&self) -> String {
        let begin = if self.is_complete { COMPLETE } else { PARTIAL };
        format!("{} {begin}", self.id)
    }

    /// The history of the data. `None` if a version that did not record it has begun to use the topic.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn stored(store: &Store) -> Result<Option<TopicHistory>, StoreError> {
        let field = store.layout_field(FIELD).await?;
        let parse = |field: String| {
            let (id, begin) = field.split_once(' ')?;
            Some(TopicHistory {
                id: id.to_owned(),
                is_complete: begin == COMPLETE,
            })
        };
        Ok(field.and_then(parse))
    }

    /// Begins the history before the data uses its topic, unless there is one. It is complete if nothing was counted yet.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub(super) async fn begin(store: &Store) -> Result<(), TopicError> {
        let all: Vec<Partition> = (0..store.keys().partitions()).collect();
        let is_complete = !published::any_counted(store, &all).await?;
        let new = TopicHistory::new(is_complete).to_field();
        let begun = store.layout_field_or_init(FIELD, &new).await;
        Ok(begun.map(drop).map_err(StoreError::from)?)
    }

    /// Begins another history: from now on, changes are missing.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn restart(store: &Store) -> Result<(), StoreError> {
        let new = TopicHistory::new(false).to_field();
        Ok(store.set_layout_field(FIELD, &new).await?)
    }
}
