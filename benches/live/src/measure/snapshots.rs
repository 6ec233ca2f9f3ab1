//! The duration of BGSAVE, and of loading a snapshot or an append-only file of commands.
//!
//! The server checks for the exit of its child ten times a second and reports whole seconds, so the driver polls the child
//! process. Loading times come from the server's log, in milliseconds.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::driver::control::Control;
use crate::driver::cpu;
use crate::driver::programs::Programs;
use crate::driver::server::{Server, Workdir};
use crate::error::Result;
use crate::workload::dataset::{DataSet, ObjectKind};
use crate::workload::scale::Scale;
use crate::workload::table::{Rows, TABLE, Tables};

/// The duration of a BGSAVE or a load.
pub struct Timing {
    /// Elapsed seconds.
    pub wall: f64,
    /// CPU seconds.
    pub cpu: f64,
}

/// The data sets: CountInts, rows of one table and of many, CountInts of the same entities as the latter, and Hashes.
fn data_sets(objects: u64) -> [DataSet; 5] {
    [
        DataSet::Objects(ObjectKind::CountInt, objects),
        DataSet::Rows(Rows::HeavyTail, objects),
        DataSet::Tables(Tables::ascending(objects)),
        DataSet::Entities(Tables::ascending(objects)),
        DataSet::Objects(ObjectKind::Hash, objects),
    ]
}

/// A data set and its measurements.
pub struct Snapshot {
    /// The data set.
    pub data: DataSet,
    /// The size of its file in bytes.
    pub file_bytes: f64,
    /// The size of its append-only file in bytes.
    pub aof_bytes: f64,
    /// The memory of its tables, if it has any.
    pub memory_bytes: Option<f64>,
    /// A timing for each BGSAVE.
    pub saves: Vec<Timing>,
    /// A timing for each BGSAVE without compression by the server.
    pub uncompressed_saves: Vec<Timing>,
    /// A timing for each load of the snapshot.
    pub loads: Vec<Timing>,
    /// A timing for each load of the append-only file.
    pub aof_loads: Vec<Timing>,
}

/// Saves and loads each data set several times, interleaved.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<Vec<Snapshot>> {
    let (mut snapshots, mut dirs, mut servers) = (Vec::new(), Vec::new(), Vec::new());
    for data in data_sets(scale.objects) {
        let dir = Workdir::new()?;
        let server = data.start(programs, &dir)?;
        let memory_bytes = match data {
            DataSet::Rows(..) => Some(table_bytes(&mut server.control()?)?),
            DataSet::Tables(_) => Some(all_tables_bytes(&mut server.control()?)?),
            _ => None,
        };
        servers.push(server);
        dirs.push(dir);
        snapshots.push(Snapshot {
            data,
            file_bytes: 0.0,
            aof_bytes: 0.0,
            memory_bytes,
            saves: Vec::new(),
            uncompressed_saves: Vec::new(),
            loads: Vec::new(),
            aof_loads: Vec::new(),
        });
    }
    // Those with compression come last: their files are loaded.
    for compression in ["no", "yes"] {
        for server in &servers {
            let setting = format!("CONFIG SET rdbcompression {compression}");
            server.control()?.call(&setting)?;
        }
        for i in interleaved(snapshots.len(), scale.snapshots) {
            let timing = save(&servers[i])?;
            match compression {
                "no" => snapshots[i].uncompressed_saves.push(timing),
                _ => snapshots[i].saves.push(timing),
            }
        }
    }
    for server in &servers {
        write_append_only_file(&mut server.control()?)?;
    }
    drop(servers);
    for i in interleaved(snapshots.len(), scale.snapshots) {
        let data = snapshots[i].data;
        let timing = load(programs, &dirs[i], data)?;
        snapshots[i].loads.push(timing);
        let timing = load_append_only_file(programs, &dirs[i], data)?;
        snapshots[i].aof_loads.push(timing);
    }
    for (snapshot, dir) in snapshots.iter_mut().zip(&dirs) {
        snapshot.file_bytes = std::fs::metadata(dir.file("dump.rdb"))?.len() as f64;
        for file in std::fs::read_dir(dir.file("appendonlydir"))? {
            snapshot.aof_bytes += file?.metadata()?.len() as f64;
        }
    }
    Ok(snapshots)
}

/// The memory of all tables, without their keys.
fn all_tables_bytes(control: &mut Control) -> Result<f64> {
    let bytes = control.info("countint", "countint_ctab_bytes")?;
    Ok(bytes.parse()?)
}

/// The memory of the table, as `MEMORY USAGE` reports it.
pub fn table_bytes(control: &mut Control) -> Result<f64> {
    Ok(control.call(&format!("MEMORY USAGE {TABLE}"))?.parse()?)
}

/// 0 1 2, 2 1 0, 0 1 2 ... `repeats` times.
fn interleaved(count: usize, repeats: usize) -> impl Iterator<Item = usize> {
    (0..repeats).flat_map(move |repeat| {
        (0..count).map(move |i| match repeat % 2 {
            0 => i,
            _ => count - 1 - i,
        })
    })
}

/// Starts a BGSAVE and polls the child until it exits.
pub fn save(server: &Server) -> Result<Timing> {
    let mut control = server.control()?;
    let started = Instant::now();
    control.call("BGSAVE")?;
    let line = server.last_log_line("Background saving started by pid ")?;
    let child: u32 = line.rsplit(' ').next().unwrap_or_default().trim().parse()?;
    let mut used = 0;
    while !cpu::has_exited(child) {
        used = cpu::main_thread_ns(child).unwrap_or(used);
        sleep(Duration::from_micros(500));
    }
    let wall = started.elapsed().as_secs_f64();
    while control.info("persistence", "rdb_bgsave_in_progress")? != "0" {
        sleep(Duration::from_millis(5));
    }
    match control
        .info("persistence", "rdb_last_bgsave_status")?
        .as_str()
    {
        "ok" => Ok(Timing {
            wall,
            cpu: used as f64 / 1e9,
        }),
        other => Err(format!("BGSAVE ended with status {other}").into()),
    }
}

/// Writes an append-only file that consists of commands.
fn write_append_only_file(control: &mut Control) -> Result<()> {
    control.call("CONFIG SET aof-use-rdb-preamble no")?;
    control.call("CONFIG SET appendonly yes")?;
    for field in ["aof_rewrite_scheduled", "aof_rewrite_in_progress"] {
        while control.info("persistence", field)? != "0" {
            sleep(Duration::from_millis(5));
        }
    }
    match control
        .info("persistence", "aof_last_bgrewrite_status")?
        .as_str()
    {
        "ok" => Ok(()),
        other => Err(format!("writing the append-only file ended with status {other}").into()),
    }
}

/// Starts a server on the snapshot of a data set.
pub fn load(programs: &Programs, dir: &Workdir, data: DataSet) -> Result<Timing> {
    let server = Server::start(programs, dir, data.module(programs))?;
    loading_time(&server, data, "DB loaded from disk: ")
}

/// Starts a server on the append-only file of a data set.
fn load_append_only_file(programs: &Programs, dir: &Workdir, data: DataSet) -> Result<Timing> {
    let settings = ["--appendonly", "yes"];
    let server = Server::start_with(programs, dir, data.module(programs), &settings)?;
    loading_time(&server, data, "DB loaded from append only file: ")
}

/// The loading time that follows `message` in the server's log.
fn loading_time(server: &Server, data: DataSet, message: &str) -> Result<Timing> {
    let cpu = server.cpu_ns()? as f64 / 1e9;
    let loaded: u64 = server.control()?.call("DBSIZE")?.parse()?;
    let saved = data.keys();
    if loaded != saved {
        return Err(format!("{loaded} keys were loaded, not {saved}").into());
    }
    let line = server.last_log_line(message)?;
    let seconds = line[message.len()..]
        .split_whitespace()
        .next()
        .ok_or("the log has no loading time")?;
    Ok(Timing {
        wall: seconds.parse()?,
        cpu,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_alternates() {
        assert_eq!(interleaved(3, 2).collect::<Vec<_>>(), [0, 1, 2, 2, 1, 0]);
    }
}
