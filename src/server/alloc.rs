//! The global allocator: the server's own, so that `INFO memory` and `maxmemory` include the module's memory.
//!
//! It is chosen at compile time: the module uses the server's allocator; its unit tests, which have no server, use the
//! system's. `alloc` returns null when memory is exhausted (through `RedisModule_TryAlloc`), so code whose sizes come
//! from a payload can fail (`try_reserve`); all other code aborts as the server itself does.
//!
//! This file must not panic: a global allocator must not unwind, and the panic itself would allocate. So functions of
//! the server are called with a `match` on their pointer rather than with `api!`, and arithmetic wraps or is checked.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

use redis_module::raw;

use backend::{free, malloc, realloc, usable_size};

/// The alignment that the server's allocator guarantees for every size (`max_align_t`).
const NATURAL_ALIGN: usize = 16;

/// The allocator's state of a thread, in one place because every allocation reads it.
struct Thread {
    /// The bytes that this thread has allocated minus the bytes that it has freed.
    net: Cell<isize>,
    /// The server's handle while a value is defragmented, else null.
    defrag: Cell<*mut raw::RedisModuleDefragCtx>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            net: Cell::new(0),
            defrag: Cell::new(std::ptr::null_mut()),
        }
    };
}

/// Runs `work` and returns by how many bytes, as the allocator rounds them, the thread's memory has grown.
///
/// Exact for any structure that `work` changes, at the cost of two reads of a thread-local. The module tracks the size
/// of sets this way, without traversing them.
pub fn measured<R>(work: impl FnOnce() -> R) -> (R, isize) {
    let before = THREAD.with(|thread| thread.net.get());
    let result = work();
    let after = THREAD.with(|thread| thread.net.get());
    (result, after.wrapping_sub(before))
}

/// Runs `work`, which copies parts of a value and drops the originals, to empty sparse pages of the allocator.
///
/// A plain copy could reuse the block of the original before it, since a thread caches the blocks that it frees. So each
/// block that `work` allocates is moved again if the server wants to empty its page.
///
/// # Safety
/// `ctx` is the handle of the current `defrag` callback, or null.
pub unsafe fn moving<R>(ctx: *mut raw::RedisModuleDefragCtx, work: impl FnOnce() -> R) -> R {
    /// Restores the previous handle, also after a panic of `work`.
    struct Outer(*mut raw::RedisModuleDefragCtx);
    impl Drop for Outer {
        fn drop(&mut self) {
            THREAD.with(|thread| thread.defrag.set(self.0));
        }
    }
    let _outer = Outer(THREAD.with(|thread| thread.defrag.replace(ctx)));
    work()
}

/// The usable size of the allocation at `ptr`.
///
/// # Safety
/// `ptr` is a live allocation of the global allocator with an alignment of at most 16.
pub unsafe fn allocated_size(ptr: *mut u8) -> usize {
    // SAFETY: the caller's promise.
    unsafe { usable_size(ptr) }
}

/// Adds to the thread's net bytes. The counter has no destructor, so it lives as long as the thread.
fn count(change: isize) {
    let _ = THREAD.try_with(|thread| thread.net.set(thread.net.get().wrapping_add(change)));
}

/// The usable size of a block, signed.
///
/// # Safety
/// As [`allocated_size`].
unsafe fn signed_size(block: *mut u8) -> isize {
    // SAFETY: the caller's promise. No block is larger than `isize::MAX`.
    unsafe { usable_size(block) as isize }
}

/// Counts a new block, after moving it if a value is being defragmented. Returns the block to use.
///
/// # Safety
/// `block` is a live allocation of `backend::malloc` that nothing refers to yet.
unsafe fn count_new(block: *mut u8) -> *mut u8 {
    let counted = THREAD.try_with(|thread| {
        let ctx = thread.defrag.get();
        let block = if ctx.is_null() {
            block
        } else {
            // SAFETY: the caller's promise; `moving` removes the handle before the callback returns.
            unsafe { defragmented(ctx, block) }
        };
        // SAFETY: the caller's promise, or the server's block of at least that size.
        let size = unsafe { signed_size(block) };
        thread.net.set(thread.net.get().wrapping_add(size));
        block
    });
    counted.unwrap_or(block)
}

/// Moves a block if the server requests it, and returns the block to use.
///
/// # Safety
/// `ctx` is the handle of the current `defrag` callback. `block` is a live allocation of `backend::malloc` that nothing
/// refers to yet.
#[cold]
unsafe fn defragmented(ctx: *mut raw::RedisModuleDefragCtx, block: *mut u8) -> *mut u8 {
    // SAFETY: the pointer, once set, is the server's function for the process's life; the rest is the caller's promise.
    let moved: *mut u8 = match unsafe { raw::RedisModule_DefragAlloc } {
        // SAFETY: as above.
        Some(defrag) => unsafe { defrag(ctx, block.cast()).cast() },
        None => std::ptr::null_mut(),
    };
    if moved.is_null() { block } else { moved }
}

/// The global allocator of the module.
pub struct ServerAlloc;

// SAFETY: `malloc`, `realloc` and `free` are the server's (or the system's) allocator, whose blocks are aligned to
// NATURAL_ALIGN. A larger alignment uses `alloc_aligned` and `block_of`, decided by the layout in every function.
unsafe impl GlobalAlloc for ServerAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the size is not zero, by GlobalAlloc's contract.
        unsafe {
            if layout.align() > NATURAL_ALIGN {
                return alloc_aligned(layout);
            }
            let ptr = malloc(layout.size());
            if ptr.is_null() { ptr } else { count_new(ptr) }
        }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: `ptr` came from `alloc` with this layout.
        unsafe {
            let block = if layout.align() > NATURAL_ALIGN {
                block_of(ptr)
            } else {
                ptr
            };
            count(signed_size(block).wrapping_neg());
            free(block);
        }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: `ptr` came from `alloc` with this layout, and `new_size` is valid for its alignment.
        unsafe {
            if layout.align() > NATURAL_ALIGN {
                return move_aligned(self, ptr, layout, new_size);
            }
            let before = signed_size(ptr);
            let new = realloc(ptr, new_size);
            if !new.is_null() {
                count(signed_size(new).wrapping_sub(before));
            }
            new
        }
    }
}

/// Allocates with an alignment above [`NATURAL_ALIGN`]: a larger block, whose address is stored right before the
/// aligned address.
///
/// # Safety
/// As `GlobalAlloc::alloc`.
unsafe fn alloc_aligned(layout: Layout) -> *mut u8 {
    // Space for the pointer and for the bytes up to the next aligned address.
    let (mask, head) = (layout.align().wrapping_sub(1), size_of::<*mut u8>());
    let size = layout.size().checked_add(head);
    let Some(size) = size.and_then(|size| size.checked_add(mask)) else {
        return std::ptr::null_mut();
    };
    // SAFETY: `size` is not zero; the aligned address and the pointer before it lie inside the block.
    unsafe {
        let block = malloc(size);
        if block.is_null() {
            return block;
        }
        count(signed_size(block));
        // The alignment is a power of two. The addresses of a block do not wrap around.
        let aligned = block.map_addr(|at| at.wrapping_add(head).wrapping_add(mask) & !mask);
        aligned.cast::<*mut u8>().sub(1).write(block);
        aligned
    }
}

/// Reallocates a block of [`alloc_aligned`] by copying.
///
/// # Safety
/// As `GlobalAlloc::realloc`.
unsafe fn move_aligned(
    allocator: &ServerAlloc,
    ptr: *mut u8,
    layout: Layout,
    new_size: usize,
) -> *mut u8 {
    // SAFETY: the new layout is valid by the caller's promise, and both blocks hold the smaller of the two sizes.
    unsafe {
        let new = allocator.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
        if !new.is_null() {
            std::ptr::copy_nonoverlapping(ptr, new, layout.size().min(new_size));
            allocator.dealloc(ptr, layout);
        }
        new
    }
}

/// The block behind an aligned address.
///
/// # Safety
/// `ptr` came from [`alloc_aligned`].
unsafe fn block_of(ptr: *mut u8) -> *mut u8 {
    // SAFETY: `alloc_aligned` wrote the block's address right before the aligned one.
    unsafe { ptr.cast::<*mut u8>().sub(1).read() }
}

/// The server's allocator.
#[cfg(not(test))]
mod backend {
    use redis_module::raw;

    /// # Safety
    /// `size` is not zero.
    pub unsafe fn malloc(size: usize) -> *mut u8 {
        // SAFETY: the pointer, once set, is the server's function for the process's life.
        match unsafe { raw::RedisModule_TryAlloc } {
            // SAFETY: as above.
            Some(alloc) => unsafe { alloc(size).cast() },
            None => std::process::abort(),
        }
    }

    /// # Safety
    /// `ptr` is a live block of [`malloc`] or [`realloc`], and `size` is not zero.
    pub unsafe fn realloc(ptr: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: as in `malloc`. TryRealloc is newer than Redis 7.0; Realloc aborts when memory is exhausted.
        match unsafe { (raw::RedisModule_TryRealloc, raw::RedisModule_Realloc) } {
            // SAFETY: `ptr` is a block of this allocator, by the caller's promise.
            (Some(realloc), _) | (None, Some(realloc)) => unsafe {
                realloc(ptr.cast(), size).cast()
            },
            (None, None) => std::process::abort(),
        }
    }

    /// # Safety
    /// `ptr` is a live block of [`malloc`] or [`realloc`]. It is not used afterwards.
    pub unsafe fn free(ptr: *mut u8) {
        // SAFETY: as in `realloc`.
        match unsafe { raw::RedisModule_Free } {
            // SAFETY: as in `realloc`.
            Some(free) => unsafe { free(ptr.cast()) },
            None => std::process::abort(),
        }
    }

    /// # Safety
    /// `ptr` is a live block of [`malloc`] or [`realloc`].
    pub unsafe fn usable_size(ptr: *mut u8) -> usize {
        // SAFETY: as in `realloc`.
        match unsafe { raw::RedisModule_MallocSize } {
            // SAFETY: as in `realloc`.
            Some(size) => unsafe { size(ptr.cast()) },
            None => 0,
        }
    }
}

/// The system's allocator, for unit tests without a server.
#[cfg(test)]
mod backend {
    use std::ffi::c_void;

    unsafe extern "C" {
        #[link_name = "malloc"]
        fn c_malloc(size: usize) -> *mut c_void;
        #[link_name = "realloc"]
        fn c_realloc(ptr: *mut c_void, size: usize) -> *mut c_void;
        #[link_name = "free"]
        fn c_free(ptr: *mut c_void);
        fn malloc_usable_size(ptr: *mut c_void) -> usize;
    }

    /// # Safety
    /// `size` is not zero.
    pub unsafe fn malloc(size: usize) -> *mut u8 {
        // SAFETY: plain C allocation.
        unsafe { c_malloc(size).cast() }
    }

    /// # Safety
    /// `ptr` is a live block of [`malloc`] or [`realloc`], and `size` is not zero.
    pub unsafe fn realloc(ptr: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: `ptr` is a block of this allocator, by the caller's promise.
        unsafe { c_realloc(ptr.cast(), size).cast() }
    }

    /// # Safety
    /// `ptr` is a live block of [`malloc`] or [`realloc`]. It is not used afterwards.
    pub unsafe fn free(ptr: *mut u8) {
        // SAFETY: as in `realloc`.
        unsafe { c_free(ptr.cast()) }
    }

    /// # Safety
    /// `ptr` is a live block of [`malloc`] or [`realloc`].
    pub unsafe fn usable_size(ptr: *mut u8) -> usize {
        // SAFETY: as in `realloc`.
        unsafe { malloc_usable_size(ptr.cast()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Line([u8; 64]);

    #[test]
    fn measures_what_a_closure_keeps_and_frees() {
        let (kept, grown) = measured(|| vec![0u8; 10_000]);
        assert!(grown >= 10_000, "{grown}");
        let ((), freed) = measured(|| drop(kept));
        assert_eq!(freed, -grown);
    }

    #[test]
    fn measures_reallocation() {
        let mut bytes = vec![1u8; 100];
        let ((), grown) = measured(|| bytes.reserve_exact(100_000));
        assert!(grown >= 99_900, "{grown}");
        assert!(bytes.iter().all(|&b| b == 1));
    }

    #[test]
    fn aligns_beyond_the_natural_alignment() {
        let (mut lines, grown) = measured(|| vec![Line([7; 64])]);
        assert!(grown >= 64);
        for n in 0..100u8 {
            lines.push(Line([n; 64]));
            assert_eq!(lines.as_ptr().addr() % 64, 0);
        }
        assert_eq!(lines[0].0, [7; 64]);
        assert_eq!(lines[100].0, [99; 64]);
        let ((), _) = measured(|| drop(lines));
    }

    /// Unit tests have no server, so blocks stay where they are, as with a server that lacks the function.
    #[test]
    fn allocating_while_a_value_is_moved_never_panics() {
        let ctx = std::ptr::dangling_mut();
        let ((bytes, lines), grown) = measured(|| {
            let work = || {
                let mut bytes = vec![1u8; 100];
                bytes.reserve_exact(100_000);
                (bytes, vec![Line([7; 64])])
            };
            // SAFETY: without a server there is no function that would use the handle.
            unsafe { moving(ctx, work) }
        });
        assert!(grown > 100_000, "{grown}");
        assert!(bytes.iter().all(|&b| b == 1) && lines[0].0 == [7; 64]);
        assert!(THREAD.with(|thread| thread.defrag.get()).is_null());
    }

    #[test]
    fn a_panic_while_a_value_is_moved_leaves_no_handle_behind() {
        let ctx = std::ptr::dangling_mut();
        let panicked = std::panic::catch_unwind(|| {
            // SAFETY: as above.
            unsafe { moving(ctx, || panic!("while moving")) }
        });
        assert!(panicked.is_err());
        assert!(THREAD.with(|thread| thread.defrag.get()).is_null());
    }

    #[test]
    fn an_impossible_size_is_refused_not_fatal() {
        let mut bytes: Vec<u8> = Vec::new();
        assert!(bytes.try_reserve_exact(isize::MAX as usize).is_err());
    }
}
