//! How many machines a load needs: `countd size`.
//!
//! Pure functions of a load, of machines and of the measured [`Figures`]. [`plan`] finds the smallest deployment. `costs` says what each request
//! and event costs at each part, with `facts` for facts and `commits` for how many events share a commit; `kafka` has the costs of Kafka, if they were measured. `stations` adds these costs up, `queue` computes waiting
//! times from them, and `memory`, `traffic` and `brokers` what else is used. `limits` says what is exhausted first.

mod brokers;
mod commits;
mod cost;
mod costs;
mod facts;
mod figures;
mod kafka;
mod latency;
mod limits;
mod memory;
mod placement;
mod plan;
mod queue;
mod stations;
mod traffic;
mod workload;

pub use figures::{Figures, FiguresError};
pub use kafka::MeasuredKafka;
pub use latency::{Latency, Percentiles};
pub use limits::{Limit, Resource};
pub use memory::{LOG_ENTRY, Memory};
pub use placement::PARTITIONS;
pub use plan::{BusyNetworks, Cores, Fixed, ModelError, Plan, SizingError, plan};
pub use workload::{Confirmation, Deployment, LogKind, Machines, Stored, Workload};
