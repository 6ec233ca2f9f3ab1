//! An allocator that counts the bytes of each thread, rounded to the size classes of jemalloc, which servers use.
// Each test binary uses only a part of this module.
#![allow(dead_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The size class of jemalloc: 8, multiples of 16 up to 128, then four classes for each doubling.
pub fn size_class(bytes: usize) -> usize {
    if bytes <= 8 {
        return 8;
    }
    let mut step = 16;
    while step * 8 < bytes {
        step *= 2;
    }
    bytes.div_ceil(step) * step
}

fn count(bytes: isize) {
    LIVE.set(LIVE.get() + bytes);
    PEAK.set(PEAK.get().max(LIVE.get()));
}

// SAFETY: every call is forwarded to `System` unchanged. The counters do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(size_class(layout.size()) as isize);
        // SAFETY: the caller observes the contract, which is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        count(-(size_class(layout.size()) as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The bytes that this thread has allocated and not freed.
pub fn live() -> isize {
    LIVE.get()
}

/// The result of `f`, the bytes that stay allocated for it, and the peak.
pub fn measure<T>(f: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let made = f();
    let (live, peak) = (LIVE.get() - before, PEAK.get() - before);
    (made, live.max(0) as usize, peak as usize)
}

#[test]
fn size_classes_are_those_of_jemalloc() {
    let classes = [
        (1, 8),
        (9, 16),
        (17, 32),
        (100, 112),
        (128, 128),
        (129, 160),
        (257, 320),
        (1025, 1280),
        (8192, 8192),
    ];
    for (bytes, class) in classes {
        assert_eq!(size_class(bytes), class, "{bytes}");
    }
}
