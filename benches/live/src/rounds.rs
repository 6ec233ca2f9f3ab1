//! Interleaved rounds: A B C, C B A, A B C ... so that whatever slows the machine for a while slows all sides.

use std::time::{Duration, Instant};

use crate::client::Connection;
use crate::numbers::{Numbers, Pick};
use crate::server::Server;
use crate::template::Template;
use crate::workload::Side;
use crate::{Result, cpu, scripts};

/// Connections per side: enough that the server always has a batch waiting, as it would with many clients.
pub const CONNECTIONS: usize = 16;

/// One side of a comparison, connected and ready to run.
pub struct Runner<'a> {
    server: &'a Server,
    connections: Vec<Connection>,
    templates: Vec<Template>,
    /// Takes back what a round did, outside the measured time.
    undo: Option<Vec<Template>>,
    pick: Pick,
    depth: u64,
}

/// What one round measured.
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
    /// Connects to the side's process and encodes `depth` repetitions of its commands.
    pub fn new(server: &'a Server, side: &Side, depth: usize, pick: Pick) -> Result<Runner<'a>> {
        let connections = (0..CONNECTIONS).map(|_| Connection::open(server.port()));
        let mut control = server.control()?;
        let mut encode = |commands: &str| -> Result<Vec<Template>> {
            let commands = scripts::resolve(commands, &mut control)?;
            Ok(Template::compile_all(&commands, pick.digits(), depth))
        };
        Ok(Runner {
            server,
            connections: connections.collect::<Result<_>>()?,
            templates: encode(&side.commands)?,
            undo: side.undo.as_deref().map(encode).transpose()?,
            pick,
            depth: depth as u64,
        })
    }

    /// Runs for about `time` with the ids of `seed`, then puts the data back as it was.
    fn round(&mut self, time: Duration, seed: u64) -> Result<Sample> {
        let server = self.server;
        let (server_before, client_before) = (server.cpu_ns()?, cpu::thread_ns()?);
        let started = Instant::now();
        let most = self.pick.limit() / self.depth;
        let numbers = Numbers::new(self.pick, seed);
        let batches = drive(
            &mut self.connections,
            &mut self.templates,
            numbers,
            |sent| sent < most && started.elapsed() < time,
        )?;
        let wall = started.elapsed();
        let sample = Sample {
            operations: batches * self.depth,
            wall,
            client_ns: cpu::thread_ns()? - client_before,
            server_ns: server.cpu_ns()? - server_before,
        };
        if let Some(undo) = &mut self.undo {
            let numbers = Numbers::new(self.pick, seed);
            drive(&mut self.connections, undo, numbers, |sent| sent < batches)?;
        }
        Ok(sample)
    }
}

/// Sends batches over all connections in turn while `go_on(batches sent)` says so, waits for all replies, and returns
/// how many batches were sent. Each connection has one batch under way.
fn drive(
    connections: &mut [Connection],
    templates: &mut [Template],
    mut numbers: Numbers,
    go_on: impl Fn(u64) -> bool,
) -> Result<u64> {
    let turns = templates.len() as u64;
    let mut sent = 0;
    'sending: loop {
        for connection in connections.iter_mut() {
            if !go_on(sent) {
                break 'sending;
            }
            connection.wait()?;
            let template = &mut templates[(sent % turns) as usize];
            let replies = template.replies();
            connection.send(template.fill(&mut numbers), replies)?;
            sent += 1;
        }
    }
    for connection in connections.iter_mut() {
        connection.wait()?;
    }
    Ok(sent)
}

/// Runs `rounds` interleaved rounds of `time` for every side, after one short round each to warm up. Element `[s][r]`
/// of the result is side `s` in round `r`; in a round all sides see the same ids, and no two seeds give the same round.
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
