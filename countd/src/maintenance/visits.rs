//! The progress of a sweep over keys and rows, for an operator who waits for it.

use crate::domain::error::StoreError;
use crate::domain::progress::{Progress, Update};
use crate::redis::store::Store;
use redis::RedisError;

/// Commands that [`node_sizes`] sends.
pub(super) const PERMISSIONS: &[&str] = &["DBSIZE"];
/// Commands that [`table_sizes`] sends.
pub(super) const TABLE_PERMISSIONS: &[&str] = &["CTAB.CARD {tables}"];

/// Commands that [`hash_sizes`] sends.
pub(super) const HASH_PERMISSIONS: &[&str] = &["HLEN {sums}", "HLEN {authors}"];

/// The maximum number of commands of a pipeline.
const KEYS_PER_PIPELINE: usize = 256;

/// Receives the progress of a sweep. `None` for background sweeps of consumers.
pub type Observer<'a> = Option<&'a dyn Progress>;

/// What a sweep has visited so far. The total is an estimate: keys appear and expire while the sweep runs, and a step of `SCAN` looks at more or fewer
/// keys than it is asked for. The end of each part corrects it.
pub struct Visits<'a> {
    observer: Observer<'a>,
    step: &'static str,
    /// What is counted besides keys and rows, such as `users`.
    label: &'static str,
    counted: u64,
    /// The number of keys or rows of each part, such as a node or a table, when the sweep began.
    sizes: Vec<u64>,
    part: usize,
    /// The number of keys or rows of the current part that were visited.
    visited: u64,
}

impl<'a> Visits<'a> {
    /// A sweep that begins. `step` is its name and that of what is counted. `sizes` reads the number of keys or rows of each part; it is not
    /// awaited without an observer.
    ///
    /// # Errors
    /// Those of `sizes`.
    pub async fn begin(
        observer: Observer<'a>,
        step: (&'static str, &'static str),
        sizes: impl Future<Output = Result<Vec<u64>, StoreError>>,
    ) -> Result<Visits<'a>, StoreError> {
        let sizes = match observer {
            Some(_) => sizes.await?,
            None => Vec::new(),
        };
        Ok(Visits::new(observer, step, sizes))
    }

    fn new(
        observer: Observer<'a>,
        (step, label): (&'static str, &'static str),
        sizes: Vec<u64>,
    ) -> Visits<'a> {
        let visits = Visits {
            observer,
            step,
            label,
            counted: 0,
            sizes,
            part: 0,
            visited: 0,
        };
        visits.show();
        visits
    }

    /// Adds keys or rows that were visited, and what was found in them.
    pub fn add(&mut self, keys: u64, counted: u64) {
        let size = self.sizes.get(self.part).copied().unwrap_or(0);
        self.visited = self.visited.saturating_add(keys).min(size);
        self.counted += counted;
        self.show();
    }

    /// Ends the current part: all of it was visited.
    pub fn end_part(&mut self) {
        self.part += 1;
        self.visited = 0;
        self.show();
    }

    fn show(&self) {
        let Some(progress) = self.observer else {
            return;
        };
        let ended = self.sizes.iter().take(self.part).sum::<u64>();
        let all = self.sizes.iter().sum::<u64>();
        let update = Update::new(self.step, ended + self.visited, "keys and rows").of(all);
        progress.update(&update.with(&[(self.label, self.counted)]));
    }
}

/// The number of keys of each node.
///
/// # Errors
/// A node is unavailable.
pub async fn node_sizes(store: &Store) -> Result<Vec<u64>, StoreError> {
    let mut sizes = Vec::new();
    for mut server in store.servers()? {
        sizes.push(redis::cmd("DBSIZE").query_async(&mut server).await?);
    }
    Ok(sizes)
}

/// The number of rows of each table. None for a key of another type.
///
/// # Errors
/// Redis is unavailable.
pub async fn table_sizes(store: &Store, tables: &[String]) -> Result<Vec<u64>, StoreError> {
    sizes(store, "CTAB.CARD", tables).await
}

/// The number of fields of each Hash. None for a key of another type.
///
/// # Errors
/// Redis is unavailable.
pub async fn hash_sizes(store: &Store, hashes: &[String]) -> Result<Vec<u64>, StoreError> {
    sizes(store, "HLEN", hashes).await
}

async fn sizes(store: &Store, command: &str, keys: &[String]) -> Result<Vec<u64>, StoreError> {
    let mut sizes = Vec::with_capacity(keys.len());
    for keys in keys.chunks(KEYS_PER_PIPELINE) {
        let mut pipeline = redis::pipe();
        for key in keys {
            pipeline.cmd(command).arg(key);
        }
        pipeline.ignore_errors();
        let replies: Vec<Result<u64, RedisError>> =
            pipeline.query_async(&mut store.reads()).await?;
        for reply in replies {
            sizes.push(match reply.map_err(StoreError::from) {
                Err(StoreError::WrongType(_)) => 0,
                size => size?,
            });
        }
    }
    Ok(sizes)
}

/// The number of keys of each node, and of rows of each table with counters of users.
///
/// # Errors
/// Redis is unavailable.
pub async fn user_sizes(store: &Store) -> Result<Vec<u64>, StoreError> {
    let mut sizes = node_sizes(store).await?;
    if store.backend().has_tables() {
        let keys = store.keys();
        let tables: Vec<String> = (0..keys.partitions())
            .map(|of| keys.user_table(of))
            .collect();
        sizes.extend(table_sizes(store, &tables).await?);
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// What is done of what, and how many users.
    #[derive(Default)]
    struct Seen(Mutex<Vec<(u64, u64, u64)>>);

    impl Progress for Seen {
        fn update(&self, update: &Update<'_>) {
            let [("users", users)] = update.counts else {
                panic!("{update:?}");
            };
            let seen = (update.done.expect("done"), update.total.expect("a total"));
            let mut all = self.0.lock().expect("no test fails");
            all.push((seen.0, seen.1, *users));
        }

        fn note(&self, _: &str) {}
    }

    #[test]
    fn done_never_exceeds_the_total_and_reaches_it() {
        let seen = Seen::default();
        let mut visits = Visits::new(Some(&seen), ("comparing", "users"), vec![1_500, 0, 10]);
        visits.add(1_000, 3);
        // A step of `SCAN` may look at more keys than there were.
        visits.add(1_000, 4);
        visits.end_part();
        visits.end_part();
        visits.add(4, 1);
        visits.end_part();
        // A table that did not exist before.
        visits.add(9, 0);
        let seen = seen.0.into_inner().expect("no test fails");
        let expected = [
            (0, 1_510, 0),
            (1_000, 1_510, 3),
            (1_500, 1_510, 7),
            (1_500, 1_510, 7),
            (1_500, 1_510, 7),
            (1_504, 1_510, 8),
            (1_510, 1_510, 8),
            (1_510, 1_510, 8),
        ];
        assert_eq!(seen, expected);
    }
}
