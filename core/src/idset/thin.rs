//! One pointer to one of two things: a page, or a `T` in a box. The pointer's lowest bit tells which.

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, forget};
use std::ptr::NonNull;

use super::page::Page;

/// The lowest bit of a pointer to a box. All allocations behind either pointer are aligned to more than a byte.
const BOXED: usize = 1;

/// A [`Page`] or a `Box<T>`, in the size of one pointer.
#[repr(transparent)]
pub(super) struct Thin<T>(NonNull<u8>, PhantomData<(Page, Box<T>)>);

// SAFETY: what it owns is one of two things that may both go to other threads.
unsafe impl<T: Send> Send for Thin<T> {}
// SAFETY: as above, for sharing.
unsafe impl<T: Sync> Sync for Thin<T> {}

/// What a [`Thin`] is, borrowed.
pub(super) enum Ref<'a, T> {
    Page(&'a Page),
    Boxed(&'a T),
}

/// What a [`Thin`] is, borrowed to be changed.
pub(super) enum RefMut<'a, T> {
    Page(&'a mut Page),
    Boxed(&'a mut T),
}

/// What a [`Thin`] was.
pub(super) enum Owned<T> {
    Page(Page),
    Boxed(Box<T>),
}

impl<T> Thin<T> {
    pub(super) fn page(page: Page) -> Thin<T> {
        const { assert!(size_of::<Page>() == size_of::<Thin<T>>() && align_of::<T>() > 1) };
        let page = ManuallyDrop::new(page);
        // SAFETY: a page is one non-null pointer (`repr(transparent)`), which is aligned to 8: its lowest bit is 0.
        let pointer = unsafe { std::mem::transmute_copy::<Page, NonNull<u8>>(&page) };
        Thin(pointer, PhantomData)
    }

    pub(super) fn boxed(boxed: Box<T>) -> Thin<T> {
        let pointer = NonNull::from(Box::leak(boxed)).cast::<u8>();
        Thin(pointer.map_addr(|addr| addr | BOXED), PhantomData)
    }

    #[inline]
    fn is_boxed(&self) -> bool {
        self.0.addr().get() & BOXED != 0
    }

    /// The pointer to the box. Only where it is one.
    #[inline]
    fn target(&self) -> *mut T {
        self.0.as_ptr().map_addr(|addr| addr & !BOXED).cast()
    }

    #[inline]
    pub(super) fn get(&self) -> Ref<'_, T> {
        if self.is_boxed() {
            // SAFETY: the pointer is that of a box, which this value owns, and is borrowed as this value is.
            Ref::Boxed(unsafe { &*self.target() })
        } else {
            // SAFETY: the pointer is that of a page, and a page is nothing but its pointer.
            Ref::Page(unsafe { &*std::ptr::from_ref(self).cast::<Page>() })
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self) -> RefMut<'_, T> {
        if self.is_boxed() {
            // SAFETY: as in `get`; `&mut self` is the only way to the box.
            RefMut::Boxed(unsafe { &mut *self.target() })
        } else {
            // SAFETY: as in `get`. Whatever page is put in its place is a valid value of this type as well.
            RefMut::Page(unsafe { &mut *std::ptr::from_mut(self).cast::<Page>() })
        }
    }

    pub(super) fn into_owned(self) -> Owned<T> {
        let boxed = self.is_boxed();
        let (pointer, target) = (self.0, self.target());
        forget(self);
        if boxed {
            // SAFETY: the pointer came from `Box::leak`, and its owner has been forgotten.
            Owned::Boxed(unsafe { Box::from_raw(target) })
        } else {
            // SAFETY: the pointer is that of a page, whose owner has been forgotten.
            Owned::Page(unsafe { std::mem::transmute::<NonNull<u8>, Page>(pointer) })
        }
    }

    /// Gives the pointer away; [`Thin::from_raw`] takes it back.
    pub(super) fn into_raw(self) -> NonNull<u8> {
        let pointer = self.0;
        forget(self);
        pointer
    }

    /// The pointer, to compare and to tell from others.
    #[inline]
    pub(super) fn as_raw(&self) -> NonNull<u8> {
        self.0
    }

    /// # Safety
    /// `pointer` came from `into_raw` of the same type, and nobody else takes it back.
    #[inline]
    pub(super) unsafe fn from_raw(pointer: NonNull<u8>) -> Thin<T> {
        Thin(pointer, PhantomData)
    }
}

impl<T> Drop for Thin<T> {
    fn drop(&mut self) {
        // SAFETY: a copy of this pointer that takes over what it owns; `self` is not used any more.
        drop(unsafe { Thin::<T>::from_raw(self.0) }.into_owned());
    }
}

impl<T: Clone> Clone for Thin<T> {
    fn clone(&self) -> Thin<T> {
        match self.get() {
            Ref::Page(page) => Thin::page(page.clone()),
            Ref::Boxed(target) => Thin::boxed(Box::new(target.clone())),
        }
    }
}
