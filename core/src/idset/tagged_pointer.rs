//! A tagged pointer: a page or a `Box<T>` in one word, distinguished by the lowest bit.

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, forget};
use std::ptr::NonNull;

use super::page::Page;

/// The tag of a pointer to a box. Both kinds of allocations are aligned to at least two bytes, so the bit is free.
const BOXED: usize = 1;

/// A [`Page`] or a `Box<T>` in the size of one pointer.
#[repr(transparent)]
pub(super) struct TaggedPointer<T>(NonNull<u8>, PhantomData<(Page, Box<T>)>);

// SAFETY: it owns a page or a `Box<T>`, and both are `Send`.
unsafe impl<T: Send> Send for TaggedPointer<T> {}
// SAFETY: it owns a page or a `Box<T>`, and both are `Sync`.
unsafe impl<T: Sync> Sync for TaggedPointer<T> {}

/// A borrowed [`TaggedPointer`].
pub(super) enum Ref<'a, T> {
    Page(&'a Page),
    Boxed(&'a T),
}

/// A mutably borrowed [`TaggedPointer`].
pub(super) enum RefMut<'a, T> {
    Page(&'a mut Page),
    Boxed(&'a mut T),
}

/// The owned content of a [`TaggedPointer`].
pub(super) enum Owned<T> {
    Page(Page),
    Boxed(Box<T>),
}

impl<T> TaggedPointer<T> {
    pub(super) fn page(page: Page) -> TaggedPointer<T> {
        const { assert!(size_of::<Page>() == size_of::<TaggedPointer<T>>() && align_of::<T>() > 1) };
        let page = ManuallyDrop::new(page);
        // SAFETY: a page is one non-null pointer (`repr(transparent)`), which is aligned to 8: its lowest bit is 0.
        let pointer = unsafe { std::mem::transmute_copy::<Page, NonNull<u8>>(&page) };
        TaggedPointer(pointer, PhantomData)
    }

    pub(super) fn boxed(boxed: Box<T>) -> TaggedPointer<T> {
        let pointer = NonNull::from(Box::leak(boxed)).cast::<u8>();
        TaggedPointer(pointer.map_addr(|addr| addr | BOXED), PhantomData)
    }

    #[inline]
    fn is_boxed(&self) -> bool {
        self.0.addr().get() & BOXED != 0
    }

    /// The pointer to the box, without the tag.
    #[inline]
    fn target(&self) -> *mut T {
        self.0.as_ptr().map_addr(|addr| addr & !BOXED).cast()
    }

    #[inline]
    pub(super) fn get(&self) -> Ref<'_, T> {
        if self.is_boxed() {
            // SAFETY: the tag shows that this value owns a box, which is borrowed for as long as this value is.
            Ref::Boxed(unsafe { &*self.target() })
        } else {
            // SAFETY: without the tag this value is a page, and a page is one pointer (`repr(transparent)`).
            Ref::Page(unsafe { &*std::ptr::from_ref(self).cast::<Page>() })
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self) -> RefMut<'_, T> {
        if self.is_boxed() {
            // SAFETY: as in `get`; `&mut self` makes the borrow exclusive.
            RefMut::Boxed(unsafe { &mut *self.target() })
        } else {
            // SAFETY: as in `get`. Any page written here is a valid value of this type.
            RefMut::Page(unsafe { &mut *std::ptr::from_mut(self).cast::<Page>() })
        }
    }

    pub(super) fn into_owned(self) -> Owned<T> {
        let boxed = self.is_boxed();
        let (pointer, target) = (self.0, self.target());
        forget(self);
        if boxed {
            // SAFETY: the pointer came from `Box::leak`, and its owner was forgotten.
            Owned::Boxed(unsafe { Box::from_raw(target) })
        } else {
            // SAFETY: the pointer is a page, and its owner was forgotten.
            Owned::Page(unsafe { std::mem::transmute::<NonNull<u8>, Page>(pointer) })
        }
    }

    /// Converts to a raw pointer, which [`TaggedPointer::from_raw`] converts back.
    pub(super) fn into_raw(self) -> NonNull<u8> {
        let pointer = self.0;
        forget(self);
        pointer
    }

    /// The raw pointer, for comparisons.
    #[inline]
    pub(super) fn as_raw(&self) -> NonNull<u8> {
        self.0
    }

    /// # Safety
    /// `pointer` came from `into_raw` of the same type and is converted back only once.
    #[inline]
    pub(super) unsafe fn from_raw(pointer: NonNull<u8>) -> TaggedPointer<T> {
        TaggedPointer(pointer, PhantomData)
    }
}

impl<T> Drop for TaggedPointer<T> {
    fn drop(&mut self) {
        // SAFETY: the copy takes ownership, and `self` is not used after that.
        drop(unsafe { TaggedPointer::<T>::from_raw(self.0) }.into_owned());
    }
}

impl<T: Clone> Clone for TaggedPointer<T> {
    fn clone(&self) -> TaggedPointer<T> {
        match self.get() {
            Ref::Page(page) => TaggedPointer::page(page.clone()),
            Ref::Boxed(target) => TaggedPointer::boxed(Box::new(target.clone())),
        }
    }
}
