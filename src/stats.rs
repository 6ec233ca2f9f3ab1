//! The statistics of `INFO countint`. They are atomic, because background threads of the server also free values.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// The totals of one type: objects, their elements (fields, members or rows) and their bytes.
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

    /// Counts a new object.
    pub fn add(&self, elements: u64, bytes: usize) {
        self.objects.fetch_add(1, Relaxed);
        self.resize(elements as i64, bytes as i64);
    }

    /// Counts a freed object.
    pub fn remove(&self, elements: u64, bytes: usize) {
        self.objects.fetch_sub(1, Relaxed);
        self.resize(-(elements as i64), -(bytes as i64));
    }

    /// Counts the elements and bytes by which an object has grown; negative if it has shrunk.
    pub fn resize(&self, elements: i64, bytes: i64) {
        self.elements.fetch_add(elements, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// The totals: objects, elements, bytes.
    pub fn get(&self) -> [u64; 3] {
        [&self.objects, &self.elements, &self.bytes].map(|total| total.load(Relaxed).max(0) as u64)
    }
}

/// CountInt objects; elements are fields.
pub static COUNTINT: Totals = Totals::new();
/// Id sets; elements are members.
pub static IDSET: Totals = Totals::new();
/// Tables of counters; elements are rows.
pub static COUNTTAB: Totals = Totals::new();

static SATURATIONS: AtomicU64 = AtomicU64::new(0);
static MARKS: AtomicU64 = AtomicU64::new(0);
static UNMARKS: AtomicU64 = AtomicU64::new(0);
static DUPLICATE_APPLIES: AtomicU64 = AtomicU64::new(0);
static PARTIAL_APPLIES: AtomicU64 = AtomicU64::new(0);
static REJECTED_LOADS: AtomicU64 = AtomicU64::new(0);

/// Counts increments that saturated at 0 or 2^40-1.
pub fn saturated(increments: u64) {
    if increments > 0 {
        SATURATIONS.fetch_add(increments, Relaxed);
    }
}

/// Counts a rejected payload (RDB, RESTORE).
pub fn load_rejected() {
    REJECTED_LOADS.fetch_add(1, Relaxed);
}

/// The number of saturated increments since the server started.
pub fn saturations() -> u64 {
    SATURATIONS.load(Relaxed)
}

/// Counts the members that a mark has added.
pub fn marked(members: u64) {
    MARKS.fetch_add(members, Relaxed);
}

/// Counts the members that a mark has removed.
pub fn unmarked(members: u64) {
    UNMARKS.fetch_add(members, Relaxed);
}

/// Counts an APPLY that changed nothing because its batch was applied before, completely (`duplicate`) or in part.
pub fn not_applied(duplicate: bool) {
    let counter = if duplicate {
        &DUPLICATE_APPLIES
    } else {
        &PARTIAL_APPLIES
    };
    counter.fetch_add(1, Relaxed);
}

/// The numbers of marks, unmarks, duplicate applies and partial applies since the server started.
pub fn mark_and_apply_counts() -> [u64; 4] {
    [&MARKS, &UNMARKS, &DUPLICATE_APPLIES, &PARTIAL_APPLIES].map(|counter| counter.load(Relaxed))
}

/// The number of payloads rejected since the server started.
pub fn rejected_loads() -> u64 {
    REJECTED_LOADS.load(Relaxed)
}
