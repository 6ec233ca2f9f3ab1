//! The order in which batches are appended: that in which they were read.

use super::error::RelayError;
use tokio::sync::oneshot;

/// Gives each batch its turn. A batch is read while the owner of this is locked, so turns have the order of the reads.
#[derive(Default)]
pub struct Turns {
    last: Option<oneshot::Receiver<()>>,
}

/// The turn of a batch. If it is dropped without [`finish`](Turn::finish), the batches that were read after it fail, too: otherwise they
/// would be appended before it.
pub struct Turn {
    before: Option<oneshot::Receiver<()>>,
    done: oneshot::Sender<()>,
}

impl Turns {
    /// The turn after those of all batches that are under way.
    pub fn next_turn(&mut self) -> Turn {
        let (done, finished) = oneshot::channel();
        let before = self.last.replace(finished);
        // A batch that has failed is not under way: it was rolled back before its turn was dropped.
        let is_under_way = |finished: &mut oneshot::Receiver<()>| {
            matches!(
                finished.try_recv(),
                Err(oneshot::error::TryRecvError::Empty)
            )
        };
        Turn {
            before: before.and_then(|mut finished| is_under_way(&mut finished).then_some(finished)),
            done,
        }
    }
}

impl Turn {
    /// Waits until the batches before have been appended.
    ///
    /// # Errors
    /// One of them failed.
    pub async fn wait(&mut self) -> Result<(), RelayError> {
        match self.before.take() {
            Some(before) => before.await.map_err(|_| RelayError::Before),
            None => Ok(()),
        }
    }

    /// The batch has been appended.
    pub fn finish(self) {
        // Nobody waits if no batch was read after this one.
        let _ = self.done.send(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_batch_waits_for_the_one_before() {
        let mut turns = Turns::default();
        let mut first = turns.next_turn();
        let mut second = turns.next_turn();
        first.wait().await.expect("the first waits for none");
        let waiting = tokio::spawn(async move { second.wait().await.map(|()| second) });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        first.finish();
        let second = waiting.await.expect("a task").expect("its turn");
        second.finish();
        let mut third = turns.next_turn();
        third.wait().await.expect("none is under way");
    }

    #[tokio::test]
    async fn batches_after_a_failed_one_fail_until_it_is_read_again() {
        let mut turns = Turns::default();
        let first = turns.next_turn();
        let mut second = turns.next_turn();
        drop(first);
        assert!(second.wait().await.is_err());
        let mut third = turns.next_turn();
        drop(second);
        assert!(third.wait().await.is_err());
        drop(third);
        let mut again = turns.next_turn();
        again.wait().await.expect("none is under way");
    }
}
