//! Interleaved rounds (A B C, C B A, A B C ...), so that a temporary slowdown of the machine affects all sides.

use std::time::{Duration, Instant};

use crate::driver::connection::Connection;
use crate::driver::cpu;
use crate::driver::server::Server;
use crate::error::Result;
use crate::workload::comparison::Side;
use crate::workload::id_source::{IdSampler, IdSource};
use crate::workload::scripts;
use crate::workload::template::Template;

/// Connections per side, enough to keep the server's input queue non-empty, as with many clients.
pub const CONNECTIONS: usize = 16;

/// One side of a comparison, connected and ready to run.
pub struct Runner<'a> {
    server: &'a Server,
    connections: Vec<Connection>,
    templates: Vec<Template>,
    /// Operations that undo a round, sent outside the measured time.
    undo: Option<Vec<Template>>,
    ids: IdSource,
    ids_per_operation: u64,
    depth: u64,
}

/// The measurements of one round.
pub struct Sample {
    /// Operations (a transaction counts as one).
    pub operations: u64,
    /// From the first byte sent to the last reply.
    pub wall: Duration,
    /// CPU time of the server's main thread.
    pub server_ns: u64,
    /// CPU time of the client.
    pub client_ns: u64,
}

impl<'a> Runner<'a> {
    /// Connects to the side's process and encodes its operations for this pipeline depth. Each uses that number of ids at most.
    pub fn new(
        server: &'a Server,
        side: &Side,
        depth: usize,
        (ids, ids_per_operation): (IdSource, u64),
    ) -> Result<Runner<'a>> {
        let connections = (0..CONNECTIONS).map(|_| Connection::open(server.port()));
        let mut control = server.control()?;
        let mut encode = |commands: &str| -> Result<Vec<Template>> {
            let commands = scripts::resolve(commands, &mut control)?;
            Ok(Template::compile_all(&commands, ids.digits(), depth))
        };
        Ok(Runner {
            server,
            connections: connections.collect::<Result<_>>()?,
            templates: encode(&side.commands)?,
            undo: side.undo.as_deref().map(encode).transpose()?,
            ids,
            ids_per_operation,
            depth: depth as u64,
        })
    }

    /// Runs for about `time` with the ids of `seed`, then undoes the changes.
    fn round(&mut self, time: Duration, seed: u64) -> Result<Sample> {
        let server = self.server;
        let (server_before, client_before) = (server.cpu_ns()?, cpu::thread_ns()?);
        let started = Instant::now();
        let limit = self.ids.limit() / self.ids_per_operation / self.depth;
        let sampler = IdSampler::new(self.ids, seed);
        let batches = drive(
            &mut self.connections,
            &mut self.templates,
            sampler,
            |sent| sent < limit && started.elapsed() < time,
        )?;
        let wall = started.elapsed();
        let sample = Sample {
            operations: batches * self.depth,
            wall,
            client_ns: cpu::thread_ns()? - client_before,
            server_ns: server.cpu_ns()? - server_before,
        };
        if let Some(undo) = &mut self.undo {
            let sampler = IdSampler::new(self.ids, seed);
            drive(&mut self.connections, undo, sampler, |sent| sent < batches)?;
        }
        Ok(sample)
    }
}

/// Sends batches over all connections in turn while `keep_sending(batches sent)` is true, waits for all replies, and
/// returns the number of batches. Each connection has one batch in flight.
fn drive(
    connections: &mut [Connection],
    templates: &mut [Template],
    mut sampler: IdSampler,
    keep_sending: impl Fn(u64) -> bool,
) -> Result<u64> {
    let turns = templates.len() as u64;
    let mut sent = 0;
    'sending: loop {
        for connection in connections.iter_mut() {
            if !keep_sending(sent) {
                break 'sending;
            }
            connection.wait()?;
            let template = &mut templates[(sent % turns) as usize];
            let replies = template.replies();
            connection.send(template.fill(&mut sampler), replies)?;
            sent += 1;
        }
    }
    for connection in connections.iter_mut() {
        connection.wait()?;
    }
    Ok(sent)
}

/// Runs `rounds` interleaved rounds of `time` for every side, after a short warm-up round each. Element `[s][r]` of the
/// result is side `s` in round `r`. In a round all sides use the same ids; each round and `seed` uses others.
pub fn interleave(
    sides: &mut [Runner],
    rounds: usize,
    time: Duration,
    seed: u64,
) -> Result<Vec<Vec<Sample>>> {
    for side in sides.iter_mut() {
        side.round(time / 2, seed << 32)?;
    }
    let mut samples: Vec<Vec<Sample>> = sides.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..sides.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for side in order {
            samples[side].push(sides[side].round(time, (seed << 32) + round as u64 + 1)?);
        }
    }
    Ok(samples)
}
