//! The view of a `concurrent` access, which many tasks use at once, element by element.

use super::Element;
use crate::sealed::Sealed;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// A region that other tasks update at the same time. Every operation on an element is atomic.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
/// let histogram = rt.data(vec![0u64; 4]);
/// for i in 0..100 {
///     rt.task("count", (histogram.concurrent(),)).cpu(move |_, (bins,)| bins.update(i % 4, |n| n + 1)).submit()?;
/// }
/// assert_eq!(rt.take(histogram)?, [25; 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Shared<'a, T> {
    first: *mut T,
    len: usize,
    region: PhantomData<&'a [T]>,
}

// SAFETY: MULTISKIP
unsafe impl<T: AtomicElement> Send for Shared<'_, T> {}
// SAFETY: elements are accessed only by atomic operations, so several threads may use the view at once.
unsafe impl<T: AtomicElement> Sync for Shared<'_, T> {}

/// Elements of four or eight bytes with natural alignment, which the hardware updates atomically.
///
/// ```
/// use thalweg::memory::AtomicElement;
/// use thalweg::prelude::*;
/// fn add<T: AtomicElement + std::ops::Add<Output = T>>(rt: &Runtime, x: &Data<T>, n: T) -> Result<TaskId, SubmitError> {
///     rt.task("add", (x.concurrent(),)).cpu(move |_, (x,)| x.update(0, |x| x + n)).submit()
/// }
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.scalar(0u64);
/// for _ in 0..10 {
///     add(&rt, &x, 1)?;
/// }
/// assert_eq!(rt.read(&x)?[0], 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait AtomicElement: Element + Sealed {
    /// Reads the element at `address`.
    ///
    /// # Safety
    /// `address` is valid, aligned, and accessed only by atomic operations during the call.
    #[doc(hidden)]
    unsafe fn atomic_load(address: *mut Self) -> Self;

    /// Writes `new` if the element at `address` still has the bits of `old`.
    ///
    /// # Safety
    /// As for `atomic_load`.
    #[doc(hidden)]
    unsafe fn atomic_replace(address: *mut Self, old: Self, new: Self) -> bool;
}

macro_rules! atomic_elements {
    ($($t:ty as $bits:ty, $atomic:ty;)*) => {$(
        const _: () = assert!(align_of::<$t>() == align_of::<$atomic>() && size_of::<$t>() == size_of::<$atomic>());

        impl AtomicElement for $t {
            #[inline]
            unsafe fn atomic_load(address: *mut Self) -> Self {
                // SAFETY: the caller has a valid address that is only used atomically; both types have the same size
                // and alignment.
                bytemuck::cast(unsafe { <$atomic>::from_ptr(address.cast()) }.load(Ordering::Relaxed))
            }

            #[inline]
            unsafe fn atomic_replace(address: *mut Self, old: Self, new: Self) -> bool {
                let (old, new): ($bits, $bits) = (bytemuck::cast(old), bytemuck::cast(new));
                // SAFETY: the caller has a valid address that is only used atomically; both types have the same size
                // and alignment.
                let atomic = unsafe { <$atomic>::from_ptr(address.cast()) };
                atomic.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            }
        }
    )*};
}

atomic_elements! {
    f64 as u64, AtomicU64; u64 as u64, AtomicU64; i64 as u64, AtomicU64;
    usize as usize, AtomicUsize; isize as usize, AtomicUsize;
    f32 as u32, AtomicU32; u32 as u32, AtomicU32; i32 as u32, AtomicU32;
}

impl<T: AtomicElement> Shared<'_, T> {
    /// # Safety
    /// For the view's lifetime, `len` elements are at `first`, and only views of this type access them.
    pub(super) unsafe fn new(first: *mut T, len: usize) -> Self {
        Self { first, len, region: PhantomData }
    }

    /// Returns the number of elements. A region of several dimensions is indexed in row-major order.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the region is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[track_caller]
    fn address(&self, index: usize) -> *mut T {
        assert!(index < self.len, "index {index} of a shared region of {}", self.len);
        self.first.wrapping_add(index)
    }

    /// Returns the element's current value.
    ///
    /// # Panics
    /// Panics if `index` is not less than `len`.
    #[inline]
    #[track_caller]
    pub fn load(&self, index: usize) -> T {
        // SAFETY: in bounds, and every access to the region is atomic.
        unsafe { T::atomic_load(self.address(index)) }
    }

    /// Sets the element.
    ///
    /// # Panics
    /// Panics if `index` is not less than `len`.
    #[inline]
    #[track_caller]
    pub fn store(&self, index: usize, value: T) {
        self.update(index, |_| value);
    }

    /// Replaces the element atomically by the result of applying `f` to it. If another task changes the element in
    /// between, `f` is called again.
    ///
    /// # Panics
    /// Panics if `index` is not less than `len`.
    #[inline]
    #[track_caller]
    pub fn update(&self, index: usize, f: impl Fn(T) -> T) {
        let address = self.address(index);
        loop {
            // SAFETY: in bounds, and every access to the region is atomic.
            let old = unsafe { T::atomic_load(address) };
            // SAFETY: in bounds, and every access to the region is atomic.
            if unsafe { T::atomic_replace(address, old, f(old)) } {
                return;
            }
        }
    }
}

impl<T> fmt::Debug for Shared<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared({} elements)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// One update happens between the read and the write of another update. This is deterministic because both are on
    /// one thread.
    #[test]
    fn interleaved_update_is_not_lost() {
        let mut elements = [0.0f64, 1.0];
        // SAFETY: the elements belong to this test, and only the view accesses them while it lives.
        let view = unsafe { Shared::new(elements.as_mut_ptr(), elements.len()) };
        let attempts = Cell::new(0);
        view.update(1, |old| {
            attempts.set(attempts.get() + 1);
            if attempts.get() == 1 {
                view.update(1, |old| old + 10.0);
            }
            old * 2.0
        });
        assert!(attempts.get() >= 2, "the first read is out of date");
        assert_eq!((view.load(0), view.load(1)), (0.0, 22.0));
        view.store(0, 5.0);
        assert_eq!(elements, [5.0, 22.0]);
    }

    #[test]
    #[should_panic(expected = "index 2 of a shared region of 2")]
    fn load_beyond_the_region_panics() {
        let mut elements = [0u32; 2];
        // SAFETY: the array outlives the view, and nothing else uses it while the view exists.
        unsafe { Shared::new(elements.as_mut_ptr(), elements.len()) }.load(2);
    }
}
