//! How much of each limit the client of a request has left, for the headers of its response.

use std::cell::RefCell;
use std::future::Future;

/// What a client has left of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whose limit it is: `address`, `device` or `user`.
    pub scope: &'static str,
    /// The maximum number of items at once.
    pub burst: u32,
    /// The rate, in items per second.
    pub per_second: u32,
    /// The number of items that are available now.
    pub remaining: u32,
}

impl Standing {
    /// The seconds after which a client that used the whole burst has it again.
    pub fn window(&self) -> u32 {
        self.burst.div_ceil(self.per_second.max(1)).max(1)
    }

    /// The seconds until the whole burst is available.
    pub fn reset(&self) -> u32 {
        let used = self.burst.saturating_sub(self.remaining);
        used.div_ceil(self.per_second.max(1))
    }
}

tokio::task_local! {
    /// The limits that a request has met, each with its lowest standing.
    static STANDINGS: RefCell<Vec<Standing>>;
}

/// Runs a future, and returns the standings that were recorded in it.
pub async fn collect<T>(future: impl Future<Output = T>) -> (T, Vec<Standing>) {
    let run = async {
        let output = future.await;
        (output, STANDINGS.with(RefCell::take))
    };
    STANDINGS.scope(RefCell::default(), run).await
}

/// Records a standing. Of several clients with the same kind of limit, the one with the least remaining counts.
pub(super) fn record(standing: Standing) {
    // Standings are collected only within a request.
    let _ = STANDINGS.try_with(|standings| {
        let mut standings = standings.borrow_mut();
        match standings
            .iter_mut()
            .find(|known| known.scope == standing.scope)
        {
            Some(known) => known.remaining = known.remaining.min(standing.remaining),
            None => standings.push(standing),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(scope: &'static str, remaining: u32) -> Standing {
        Standing {
            scope,
            burst: 1_000,
            per_second: 300,
            remaining,
        }
    }

    #[tokio::test]
    async fn the_lowest_standing_of_each_limit_is_collected() {
        record(standing("user", 1));
        let ((), standings) = collect(async {
            record(standing("address", 9));
            record(standing("user", 7));
            record(standing("user", 8));
        })
        .await;
        assert_eq!(standings, [standing("address", 9), standing("user", 7)]);
    }

    #[test]
    fn seconds_are_rounded_up() {
        assert_eq!(standing("user", 0).window(), 4);
        let resets = [1_000, 999, 700, 699, 0].map(|left| standing("user", left).reset());
        assert_eq!(resets, [0, 1, 1, 2, 4]);
    }
}
