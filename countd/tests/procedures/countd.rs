//! Upgrading countd: processes are replaced one after another.

use super::{Shell, commands, start_all, systemctl, wait_until_ready};
use crate::support::invariants::assert_invariants;
use crate::support::verify::assert_matches_model;
use crate::support::workload::{self, WorkloadSize, run_clients};
use crate::support::{printed, run, set_schema, wait_until_drained};
use countint_tests::Server;

const PARTITIONS: u16 = 16;

#[test]
fn processes_are_replaced_under_load() {
    let server = Server::builder().append_only(true).start();
    let settings = "[log]\npartitions = 16\nretain = 100\n[consumer]\nlinger_ms = 5\nbatch = 50\nsession_timeout_ms = 500\n";
    let config = &format!("{settings}{}", workload::metrics());
    set_schema(&server, config);
    let mut processes = [start_all(&server, config), start_all(&server, config)];
    let apis = [processes[0].api(), processes[1].api()];
    let shell = Shell::new(config, &[("PRIMARY", &server)]);
    let page = commands("Upgrade or roll back countd");
    let size = WorkloadSize {
        clients: 6,
        users: 10,
        notes: 200,
        actions_per_client: 1_500,
        batch: 25,
        erasures: 2,
    };
    let part = size.total() / 5;
    let model = run_clients(&apis, 11, size, |progress| {
        // Forwards, and back.
        for round in 0..2 {
            for (at, process) in processes.iter_mut().enumerate() {
                progress.wait_for((2 * round + at as u64 + 1) * part);
                for command in &page {
                    let words: Vec<&str> = command.split_whitespace().collect();
                    match words.as_slice() {
                        ["ssh", "COUNTD", "systemctl", action, "countd"] => {
                            systemctl(action, process);
                        }
                        ["until", "curl", ..] => wait_until_ready(process),
                        _ => drop(shell.run(command)),
                    }
                }
            }
        }
    });
    wait_until_drained(&server, PARTITIONS);
    assert_matches_model(&apis[0], &model, size);
    assert_invariants(&server, config);
    assert_eq!(printed(&run(&server, config, &["dead", "list"])), "");
}
