//! What `INFO countint` tells. Totals are atomic: values are freed on the server's background threads too.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// What exists of one type: objects, their elements (fields or members) and their bytes.
pub struct Totals {
    objects: AtomicI64,
    elements: AtomicI64,
    bytes: AtomicI64,
}

impl Totals {
    const fn new() -> Self {
        Totals {
            objects: AtomicI64::new(0),
            elements: AtomicI64::new(0),
            bytes: AtomicI64::new(0),
        }
    }

    /// An object has come to exist.
    pub fn add(&self, elements: u64, bytes: usize) {
        self.objects.fetch_add(1, Relaxed);
        self.resize(elements as i64, bytes as i64);
    }

    /// An object is gone.
    pub fn remove(&self, elements: u64, bytes: usize) {
        self.objects.fetch_sub(1, Relaxed);
        self.resize(-(elements as i64), -(bytes as i64));
    }

    /// An object has grown (or shrunk) by so many elements and bytes.
    pub fn resize(&self, elements: i64, bytes: i64) {
        self.elements.fetch_add(elements, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Objects, elements, bytes.
    pub fn get(&self) -> [u64; 3] {
        [&self.objects, &self.elements, &self.bytes].map(|total| total.load(Relaxed).max(0) as u64)
    }
}

/// All CountInt values; elements are fields.
pub static COUNTINT: Totals = Totals::new();
/// All id sets; elements are members.
pub static IDSET: Totals = Totals::new();

/// All tables of counters; elements are rows.
pub static COUNTTAB: Totals = Totals::new();

static SATURATIONS: AtomicU64 = AtomicU64::new(0);
static MARKS: AtomicU64 = AtomicU64::new(0);
static UNMARKS: AtomicU64 = AtomicU64::new(0);
static DUPLICATE_APPLIES: AtomicU64 = AtomicU64::new(0);
static PARTIAL_APPLIES: AtomicU64 = AtomicU64::new(0);
static REJECTED_LOADS: AtomicU64 = AtomicU64::new(0);

/// `steps` increments have stopped at 0 or at 2^40-1.
pub fn saturated(steps: u64) {
    if steps > 0 {
        SATURATIONS.fetch_add(steps, Relaxed);
    }
}

/// A payload (RDB, RESTORE) was refused.
pub fn load_rejected() {
    REJECTED_LOADS.fetch_add(1, Relaxed);
}

/// Increments that have stopped at a bound since the server started.
pub fn saturations() -> u64 {
    SATURATIONS.load(Relaxed)
}

/// A MARK has added a fact.
pub fn marked() {
    MARKS.fetch_add(1, Relaxed);
}

/// An UNMARK has removed a fact.
pub fn unmarked() {
    UNMARKS.fetch_add(1, Relaxed);
}

/// An APPLY has changed nothing: all of its batch was known (a duplicate), or a part of it.
pub fn not_applied(duplicate: bool) {
    let counter = if duplicate {
        &DUPLICATE_APPLIES
    } else {
        &PARTIAL_APPLIES
    };
    counter.fetch_add(1, Relaxed);
}

/// Facts added, facts removed, duplicate applies and partial ones since the server started.
pub fn exactly_once() -> [u64; 4] {
    [&MARKS, &UNMARKS, &DUPLICATE_APPLIES, &PARTIAL_APPLIES].map(|counter| counter.load(Relaxed))
}

/// Payloads refused since the server started.
pub fn rejected_loads() -> u64 {
    REJECTED_LOADS.load(Relaxed)
}
