//! Processes under test and connections to them: servers, countd, RESP and HTTP clients, CPU pinning and accounting.
//!
//! The lowest layer: independent of workloads, measurements and the report.

pub mod bare;
pub mod connection;
pub mod control;
pub mod countd;
pub mod cpu;
pub mod database;
pub mod http;
pub mod idle;
pub mod kafka;
pub mod mariadb;
pub mod perf_test;
pub mod postgres;
pub mod programs;
pub mod resp;
pub mod server;
