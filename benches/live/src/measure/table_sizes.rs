//! Operations on whole tables, by table size: how long each blocks the server.

use std::time::Instant;

use crate::driver::control::Control;
use crate::driver::programs::Programs;
use crate::driver::server::{Server, Workdir};
use crate::error::Result;
use crate::measure::snapshots::{load, save, table_bytes};
use crate::measure::stats::Spread;
use crate::workload::dataset::DataSet;
use crate::workload::scale::Scale;
use crate::workload::table::{Rows, TABLE};

/// Repetitions of each operation.
pub const REPEATS: usize = 3;
/// The key of a copy of the table.
const COPY: &str = "tab:copy";

/// The measurements of one size. Times are medians in milliseconds.
pub struct TableTimes {
    /// The number of rows.
    pub rows: u64,
    /// Bytes in memory.
    pub bytes: f64,
    /// BGSAVE.
    pub bgsave: f64,
    /// Loading the snapshot.
    pub load: f64,
    /// COPY.
    pub copy: f64,
    /// MIGRATE to another server on this machine.
    pub migrate: f64,
    /// CTAB.RESIZE to fewer counters.
    pub resize: f64,
    /// DEL.
    pub del: f64,
    /// UNLINK.
    pub unlink: f64,
}

/// Measures tables of several sizes.
pub fn measure(programs: &Programs, scale: &Scale) -> Result<Vec<TableTimes>> {
    [1_000, 100, 10, 1]
        .into_iter()
        .map(|fraction| measure_size(scale.rows / fraction, programs))
        .collect()
}

fn measure_size(rows: u64, programs: &Programs) -> Result<TableTimes> {
    let data = DataSet::Rows(Rows::HeavyTail, rows);
    let dir = Workdir::new()?;
    let server = data.start(programs, &dir)?;
    let mut control = server.control()?;
    let bytes = table_bytes(&mut control)?;
    let bgsave = median(|| Ok(save(&server)?.wall * 1e3))?;
    let other_dir = Workdir::new()?;
    let other = Server::start(programs, &other_dir, Some(&programs.module))?;
    let migrate = format!(
        "MIGRATE 127.0.0.1 {} {TABLE} 0 60000 COPY REPLACE",
        other.port()
    );
    let migrate = median(|| milliseconds(&mut control, &migrate))?;
    let resize = median(|| {
        control.call(&format!("CTAB.RESIZE {TABLE} 6"))?;
        milliseconds(&mut control, &format!("CTAB.RESIZE {TABLE} 5"))
    })?;
    let mut copies = Vec::new();
    let mut delete_copy = |command: &str, control: &mut Control| {
        median(|| {
            copies.push(milliseconds(control, &format!("COPY {TABLE} {COPY}"))?);
            milliseconds(control, &format!("{command} {COPY}"))
        })
    };
    let del = delete_copy("DEL", &mut control)?;
    let unlink = delete_copy("UNLINK", &mut control)?;
    let copy = Spread::of(copies).median();
    drop((server, other));
    let load = median(|| Ok(load(programs, &dir, data)?.wall * 1e3))?;
    Ok(TableTimes {
        rows,
        bytes,
        bgsave,
        load,
        copy,
        migrate,
        resize,
        del,
        unlink,
    })
}

fn median(mut once: impl FnMut() -> Result<f64>) -> Result<f64> {
    let times: Result<Vec<f64>> = (0..REPEATS).map(|_| once()).collect();
    Ok(Spread::of(times?).median())
}

/// The time until the reply, in milliseconds.
fn milliseconds(control: &mut Control, command: &str) -> Result<f64> {
    let started = Instant::now();
    control.call(command)?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}
