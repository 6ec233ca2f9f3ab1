//! A workload of concurrent clients, and the model of its result in memory.

mod client;
mod model;
mod progress;
mod request;
mod size;

pub use model::{Model, authors};
pub use progress::{Progress, StopOnDrop, run_while};
pub use size::{ACTIVITY, DAILY, Random, WorkloadSize, actions_or, metrics, seed};

use super::api::Api;
use client::run_client;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

/// Runs clients until each has sent its actions and `meanwhile` has returned. The clients are spread over the `apis`.
pub fn run_clients(
    apis: &[Api],
    seed: u64,
    size: WorkloadSize,
    meanwhile: impl FnOnce(&Progress),
) -> Model {
    let progress = Progress::default();
    let mut model = Model::default();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..size.clients)
            .zip(apis.iter().cycle())
            .map(|(number, api)| {
                let progress = &progress;
                scope.spawn(move || run_client(api, number, seed, size, progress))
            })
            .collect();
        let stop = StopOnDrop(&progress.stop);
        meanwhile(&progress);
        drop(stop);
        for client in clients {
            model.merge(client.join().expect("a client ends"));
        }
    });
    let [done, repeated, requests] =
        [&progress.done, &progress.repeated, &progress.requests].map(|count| count.load(Relaxed));
    assert!(done >= size.total());
    eprintln!(
        "{done} actions of {} clients in {requests} requests; {repeated} actions were sent again",
        size.clients
    );
    model
}
