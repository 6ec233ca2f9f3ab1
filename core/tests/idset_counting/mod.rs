//! An allocator that counts its own thread's bytes as jemalloc, which servers use, would round them.
// Each test binary uses a part of it.
#![allow(dead_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The size class of jemalloc: 8, multiples of 16 up to 128, then four to each doubling.
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

fn note(bytes: isize) {
    LIVE.set(LIVE.get() + bytes);
    PEAK.set(PEAK.get().max(LIVE.get()));
}

// SAFETY: every call goes on to `System` unchanged; only counters are added, which do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(size_class(layout.size()) as isize);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        note(-(size_class(layout.size()) as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What this thread has allocated less what it has freed.
pub fn live() -> isize {
    LIVE.get()
}

/// What `f` makes, the bytes that stay allocated for it, and the most that were at one time.
pub fn measure<T>(f: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let made = f();
    let (live, peak) = (LIVE.get() - before, PEAK.get() - before);
    (made, live.max(0) as usize, peak as usize)
}

#[test]
fn size_classes() {
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
