//! Pauses between attempts.

/// Sleeps between two attempts.
pub fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(20));
}
