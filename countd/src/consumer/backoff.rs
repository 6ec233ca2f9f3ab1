//! Exponential backoff between retries.

use std::time::Duration;

const MIN_DELAY: Duration = Duration::from_millis(50);
const MAX_DELAY: Duration = Duration::from_secs(5);

/// The delay before the next retry. It doubles with each failure, up to [`MAX_DELAY`].
pub struct Backoff(Duration);

impl Backoff {
    /// Starts at [`MIN_DELAY`].
    pub fn new() -> Backoff {
        Backoff(MIN_DELAY)
    }

    /// Returns the delay to wait now, and doubles the next one.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.0;
        self.0 = (delay * 2).min(MAX_DELAY);
        delay
    }

    /// Starts again at [`MIN_DELAY`].
    pub fn reset(&mut self) {
        self.0 = MIN_DELAY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_up_to_the_maximum_until_reset() {
        let mut backoff = Backoff::new();
        let delays: Vec<u128> = (0..9).map(|_| backoff.next_delay().as_millis()).collect();
        assert_eq!(delays, [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        backoff.reset();
        assert_eq!(backoff.next_delay(), MIN_DELAY);
    }
}
