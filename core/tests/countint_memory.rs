//! The allocations of CountInt: one for each object, none for operations, and an error if the allocation fails.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use countint_core::countint::{BatchResult, CountError, CountInt, FIELD_MAX, MAX_LEN, Overflow};

/// The system allocator with counters for each thread. It can be set to fail.
struct CountingAllocator;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Allocations {
    allocations: usize,
    frees: usize,
    /// Bytes allocated and not freed, as requested by the callers.
    bytes: usize,
}

thread_local! {
    static ALLOCATIONS: Cell<Allocations> = const { Cell::new(Allocations { allocations: 0, frees: 0, bytes: 0 }) };
    static REFUSING: Cell<bool> = const { Cell::new(false) };
}

impl CountingAllocator {
    fn is_refusing() -> bool {
        REFUSING.get()
    }

    fn count(p: *mut u8, size: usize) -> *mut u8 {
        if !p.is_null() {
            let allocated = ALLOCATIONS.get();
            ALLOCATIONS.set(Allocations {
                allocations: allocated.allocations + 1,
                bytes: allocated.bytes.wrapping_add(size),
                ..allocated
            });
        }
        p
    }
}

// SAFETY: every call is forwarded to the system allocator, or returns null, which an allocator is always allowed to do.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if CountingAllocator::is_refusing() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller observes the contract, which is that of the system allocator.
        CountingAllocator::count(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        let allocated = ALLOCATIONS.get();
        ALLOCATIONS.set(Allocations {
            frees: allocated.frees + 1,
            bytes: allocated.bytes.wrapping_sub(layout.size()),
            ..allocated
        });
        // SAFETY: the caller observes the contract, which is that of the system allocator.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Runs `work`. Returns its result and its allocations.
fn measured<R>(work: impl FnOnce() -> R) -> (R, Allocations) {
    let before = ALLOCATIONS.get();
    let result = work();
    let after = ALLOCATIONS.get();
    let allocated = Allocations {
        allocations: after.allocations - before.allocations,
        frees: after.frees - before.frees,
        bytes: after.bytes.wrapping_sub(before.bytes),
    };
    (result, allocated)
}

fn refused<R>(work: impl FnOnce() -> R) -> R {
    REFUSING.set(true);
    let result = work();
    REFUSING.set(false);
    result
}

const NONE: Allocations = Allocations {
    allocations: 0,
    frees: 0,
    bytes: 0,
};

#[test]
fn each_object_is_one_allocation_and_is_freed_with_its_size() {
    for len in [1, 2, 5, 64, MAX_LEN] {
        let one = Allocations {
            allocations: 1,
            frees: 0,
            bytes: 2 + 5 * len,
        };
        let (new, allocated) = measured(|| CountInt::new(len).unwrap());
        assert_eq!(allocated, one);
        let (copy, allocated) = measured(|| new.clone());
        assert_eq!(allocated, one);
        let (read, allocated) = measured(|| CountInt::from_bytes(copy.as_bytes()).unwrap());
        assert_eq!(allocated, one);
        let (short, allocated) = measured(|| read.resized(1).unwrap());
        assert_eq!(allocated, Allocations { bytes: 7, ..one });
        let (raw, allocated) = measured(|| read.into_raw());
        assert_eq!(allocated, NONE);
        // SAFETY: `raw` is from `into_raw` and is converted back once.
        let (back, allocated) = measured(|| unsafe { CountInt::from_raw(raw) });
        assert_eq!(allocated, NONE);
        for object in [new, copy, back] {
            let ((), allocated) = measured(|| drop(object));
            assert_eq!(
                allocated,
                Allocations {
                    allocations: 0,
                    frees: 1,
                    bytes: 0_usize.wrapping_sub(2 + 5 * len)
                }
            );
        }
        drop(short);
    }
}

#[test]
fn failed_calls_allocate_nothing() {
    let object = CountInt::from_bytes(&[1; 10]).unwrap();
    let long = vec![0; 5 * MAX_LEN + 5];
    let (errors, allocated) = measured(|| {
        [
            CountInt::new(0).err(),
            CountInt::new(MAX_LEN + 1).err(),
            CountInt::from_bytes(&long).err(),
            CountInt::from_bytes(&long[..7]).err(),
            CountInt::from_bytes(&[]).err(),
            object.resized(1).err(),
            object.resized(0).err(),
        ]
    });
    assert!(errors.iter().all(Option::is_some));
    assert_eq!(allocated, NONE);
}

#[test]
fn operations_allocate_nothing() {
    for len in [2, 65, MAX_LEN] {
        let mut object = CountInt::new(len).unwrap();
        let ops: Vec<_> = (0..100_000)
            .map(|i| (i % 2 * (len - 1), 1 - (i / 2 % 2) as i64 * 2))
            .collect();
        let refused: Vec<_> = ops.iter().copied().chain([(1, i64::MIN)]).collect();
        let sets: Vec<_> = ops.iter().map(|&(idx, _)| (idx, 6)).collect();
        let mut out = Vec::with_capacity(refused.len());
        let ((), allocated) = measured(|| {
            object.incr(0, 5, Overflow::Fail).unwrap();
            object.incr(1, -5, Overflow::Saturate).unwrap();
            assert_eq!(object.set(0, 5), Ok(5));
            assert_eq!(object.get(0), Some(5));
            assert_eq!(object.iter().sum::<u64>(), 5);
            let batch = object.incr_all(&ops, Overflow::Fail, &mut out);
            assert_eq!(
                batch,
                Ok(BatchResult {
                    changed: false,
                    saturated: 0
                })
            );
            assert_eq!(
                object.incr_all(&refused, Overflow::Fail, &mut out),
                Err(CountError::Overflow)
            );
            assert_eq!(object.set_all(&sets), Ok(true));
            assert_eq!(object.set_all(&sets), Ok(false));
        });
        assert_eq!(allocated, NONE);
    }
}

#[test]
fn batch_reserves_its_output_in_one_allocation() {
    let mut object = CountInt::new(5).unwrap();
    let ops = [(0, 1); 1000];
    let mut out = Vec::new();
    let (batch, allocated) = measured(|| object.incr_all(&ops, Overflow::Fail, &mut out));
    assert_eq!(
        batch,
        Ok(BatchResult {
            changed: true,
            saturated: 0
        })
    );
    assert_eq!(allocated.allocations, 1);
}

#[test]
fn refused_allocation_is_an_error_and_changes_nothing() {
    let mut object = CountInt::from_bytes(&[0, 0, 0, 0, 9, 0, 0, 0, 0, 0]).unwrap();
    let before = object.clone();
    let mut out = Vec::new();
    let results = refused(|| {
        [
            CountInt::new(5).err(),
            CountInt::from_bytes(&[7; 25]).err(),
            object.resized(1).err(),
            object.resized(2).err(),
            object.resized(MAX_LEN).err(),
            object
                .incr_all(
                    &[(0, 1), (1, FIELD_MAX as i64)],
                    Overflow::Saturate,
                    &mut out,
                )
                .err(),
        ]
    });
    assert_eq!(results, [Some(CountError::OutOfMemory); 6]);
    assert_eq!(object, before);
    assert_eq!(out, []);
    // Operations without output need no memory.
    assert_eq!(
        refused(|| object.incr(0, 1, Overflow::Fail).map(|step| step.new)),
        Ok(10)
    );
    assert_eq!(refused(|| object.set_all(&[(0, 1), (1, 1)])), Ok(true));
}
