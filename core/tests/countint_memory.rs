//! What CountInt asks of the allocator: one allocation per object, none per call, and a polite answer to a null.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use countint_core::countint::{Batch, CountError, CountInt, FIELD_MAX, MAX_LEN, Overflow};

/// The system's allocator, with the books of each thread, that can be told to refuse.
struct Books;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Page {
    allocations: usize,
    frees: usize,
    /// Bytes allocated and not freed, by the sizes that the callers gave.
    bytes: usize,
}

thread_local! {
    static PAGE: Cell<Page> = const { Cell::new(Page { allocations: 0, frees: 0, bytes: 0 }) };
    static REFUSING: Cell<bool> = const { Cell::new(false) };
}

impl Books {
    fn refuses() -> bool {
        REFUSING.get()
    }

    fn enter(p: *mut u8, size: usize) -> *mut u8 {
        if !p.is_null() {
            let page = PAGE.get();
            PAGE.set(Page {
                allocations: page.allocations + 1,
                bytes: page.bytes.wrapping_add(size),
                ..page
            });
        }
        p
    }
}

// SAFETY: every call goes to the system's allocator or returns null, which an allocator may at any time.
unsafe impl GlobalAlloc for Books {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if Books::refuses() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is the system allocator's.
        Books::enter(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        let page = PAGE.get();
        PAGE.set(Page {
            frees: page.frees + 1,
            bytes: page.bytes.wrapping_sub(layout.size()),
            ..page
        });
        // SAFETY: the caller's promise is the system allocator's.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static BOOKS: Books = Books;

/// Runs `work` and returns its result with what it did to the allocator's books.
fn booked<R>(work: impl FnOnce() -> R) -> (R, Page) {
    let before = PAGE.get();
    let result = work();
    let after = PAGE.get();
    let page = Page {
        allocations: after.allocations - before.allocations,
        frees: after.frees - before.frees,
        bytes: after.bytes.wrapping_sub(before.bytes),
    };
    (result, page)
}

fn refused<R>(work: impl FnOnce() -> R) -> R {
    REFUSING.set(true);
    let result = work();
    REFUSING.set(false);
    result
}

const NONE: Page = Page {
    allocations: 0,
    frees: 0,
    bytes: 0,
};

#[test]
fn one_allocation_per_object_freed_with_the_size_it_had() {
    for len in [1, 2, 5, 64, MAX_LEN] {
        let one = Page {
            allocations: 1,
            frees: 0,
            bytes: 2 + 5 * len,
        };
        let (new, page) = booked(|| CountInt::new(len).unwrap());
        assert_eq!(page, one);
        assert_eq!(page.bytes, new.heap_bytes());
        let (copy, page) = booked(|| new.clone());
        assert_eq!(page, one);
        let (read, page) = booked(|| CountInt::from_bytes(copy.as_bytes()).unwrap());
        assert_eq!(page, one);
        let (short, page) = booked(|| read.resized(1).unwrap());
        assert_eq!(page, Page { bytes: 7, ..one });
        let (raw, page) = booked(|| read.into_raw());
        assert_eq!(page, NONE);
        // SAFETY: `raw` was just given up, and is taken back once.
        let (back, page) = booked(|| unsafe { CountInt::from_raw(raw) });
        assert_eq!(page, NONE);
        for object in [new, copy, back] {
            let ((), page) = booked(|| drop(object));
            assert_eq!(
                page,
                Page {
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
fn what_is_refused_allocates_nothing() {
    let object = CountInt::from_bytes(&[1; 10]).unwrap();
    let long = vec![0; 5 * MAX_LEN + 5];
    let (errors, page) = booked(|| {
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
    assert_eq!(page, NONE);
}

#[test]
fn counting_allocates_nothing() {
    for len in [2, 65, MAX_LEN] {
        let mut object = CountInt::new(len).unwrap();
        let ops: Vec<_> = (0..100_000)
            .map(|i| (i % 2 * (len - 1), 1 - (i / 2 % 2) as i64 * 2))
            .collect();
        let refused: Vec<_> = ops.iter().copied().chain([(1, i64::MIN)]).collect();
        let sets: Vec<_> = ops.iter().map(|&(idx, _)| (idx, 6)).collect();
        let mut out = Vec::with_capacity(refused.len());
        let ((), page) = booked(|| {
            object.incr(0, 5, Overflow::Fail).unwrap();
            object.incr(1, -5, Overflow::Saturate).unwrap();
            assert_eq!(object.set(0, 5), Ok(5));
            assert_eq!(object.get(0), Some(5));
            assert_eq!(object.iter().sum::<u64>(), 5);
            let batch = object.incr_all(&ops, Overflow::Fail, &mut out);
            assert_eq!(
                batch,
                Ok(Batch {
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
        assert_eq!(page, NONE);
    }
}

#[test]
fn results_grow_out_in_one_allocation() {
    let mut object = CountInt::new(5).unwrap();
    let ops = [(0, 1); 1000];
    let mut out = Vec::new();
    let (batch, page) = booked(|| object.incr_all(&ops, Overflow::Fail, &mut out));
    assert_eq!(
        batch,
        Ok(Batch {
            changed: true,
            saturated: 0
        })
    );
    assert_eq!(page.allocations, 1);
}

#[test]
fn a_null_is_an_error_and_nothing_changed() {
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
    // One field at a time needs no memory at all.
    assert_eq!(
        refused(|| object.incr(0, 1, Overflow::Fail).map(|step| step.new)),
        Ok(10)
    );
    assert_eq!(refused(|| object.set_all(&[(0, 1), (1, 1)])), Ok(true));
}
