//! How many events share a commit of countd, and how many of its partitions they have.

use super::placement::PARTITIONS;
use super::queue::Jobs;

/// The seconds of which a commit has the events: two delays of `consumer.linger_ms`, and the polls.
pub const INTERVAL: f64 = 0.045;
/// Polls in that time: of the two workers (`consumer.workers`), two each.
const POLLS: f64 = 4.0;
/// Commits in that time, unless there are more than [`BATCH`] events for each: one of each worker.
const COMMITS: f64 = 2.0;
/// `consumer.batch`: about the most events of a commit.
const BATCH: f64 = 1_000.0;

/// The partitions that commits have each second, if events are spread evenly over a `share` of all partitions: a partition counts once for
/// each commit. At most as many as events.
pub fn partitions(events: f64, share: f64) -> f64 {
    let all = PARTITIONS as f64 * share;
    if all <= 0.0 {
        return 0.0;
    }
    all / INTERVAL * -(-events * INTERVAL / all).exp_m1()
}

/// The share of the time in which events come: the others are polled for in vain.
pub fn busy_time(events: f64) -> f64 {
    -(-events * INTERVAL).exp_m1()
}

/// Jobs that need this many seconds of a core each second: the commits of so many events per second.
pub fn jobs(seconds: f64, events: f64) -> Jobs {
    background(COMMITS.max(events * INTERVAL / BATCH), seconds)
}

/// Jobs that need this many seconds of a core each second: the polls.
pub fn polls(seconds: f64) -> Jobs {
    background(POLLS, seconds)
}

fn background(number: f64, seconds: f64) -> Jobs {
    Jobs::new(number / INTERVAL, seconds * INTERVAL / number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_events_have_a_partition_each_and_many_have_all() {
        assert!((partitions(1.0, 1.0) - 1.0).abs() < 1e-4);
        let all = PARTITIONS as f64 / INTERVAL;
        assert!((partitions(1e7, 1.0) / all - 1.0).abs() < 1e-9);
        assert!((partitions(1e7, 0.25) / all - 0.25).abs() < 1e-9);
        assert_eq!(partitions(10.0, 0.0), 0.0);
        // As many events as partitions in a commit: 1 - 1/e of them have some.
        let half = partitions(all, 1.0) / all;
        assert!((half - 0.632_12).abs() < 1e-5, "{half}");
    }

    #[test]
    fn jobs_need_the_given_time() {
        // A commit of each worker, or 1,000 events in each.
        let (few, many) = (jobs(0.3, 1.0), jobs(0.3, 1e6));
        assert!((few.per_second - COMMITS / INTERVAL).abs() < 1e-9);
        assert!((many.per_second - 1e3).abs() < 1e-9);
        for jobs in [few, many, polls(0.3)] {
            assert!((jobs.per_second * jobs.seconds - 0.3).abs() < 1e-12);
        }
        assert!(busy_time(0.0) == 0.0 && busy_time(1e4) > 0.999);
    }
}
