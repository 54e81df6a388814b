//! Views whose type is a value.

use super::Dtype;
use crate::depend::Site;
use crate::kernel::{DeviceRegion, DeviceSite, DeviceView, DeviceViewMut};
use crate::memory::dlpack::DlElement;
use crate::memory::strides::{is_contiguous, strides_of};
use crate::memory::{BoxCopy, Shape, Spans, copy_box};
use crate::region::{Block, MAX_DIMS};
use crate::sealed::Sealed;
use std::marker::PhantomData;

/// A view of a region in host memory, which a body gets for an access that is declared at run time.
///
/// ```
/// use thalweg::dynamic::{AnyData, Dtype};
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = AnyData::zeros(&rt, Dtype::F64, &[2, 3])?;
/// rt.task("fill", vec![x.all().output()])
///     .cpu(|_, mut views| {
///         assert_eq!((views[0].shape(), views[0].strides()), (&[2, 3][..], &[3, 1][..]));
///         views[0].typed_mut::<f64, Ix2>().expect("float64").fill(1.0);
///     })
///     .submit()?;
/// assert_eq!(rt.take(x.typed::<f64, Ix2>().expect("float64"))?.sum(), 6.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AnyView<'a> {
    /// The site of the region; `None` if the access gives no view, as `after` does.
    site: Option<Site>,
    extents: [usize; MAX_DIMS],
    dtype: Dtype,
    ndim: u8,
    is_writable: bool,
    region: PhantomData<&'a mut [u8]>,
}

// SAFETY: the view is a borrow of plain elements, which dependences protect for its lifetime, whichever thread uses it.
unsafe impl Send for AnyView<'_> {}
// SAFETY: a shared view only reads, unless unsafe code of the user writes through its address.
unsafe impl Sync for AnyView<'_> {}

impl<'a> AnyView<'a> {
    /// # Safety
    /// For `'a`, elements of this type are at the site, which dependences let the task read, and write if
    /// `is_writable`. No other view of the region exists in the task.
    #[inline]
    pub(super) unsafe fn new(
        site: Option<Site>,
        extents: [usize; MAX_DIMS],
        (dtype, ndim): (Dtype, u8),
        is_writable: bool,
    ) -> Self {
        Self { site, extents, dtype, ndim, is_writable, region: PhantomData }
    }

    /// Returns the element type.
    #[inline]
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the number of elements along each dimension.
    #[inline]
    pub fn shape(&self) -> &[usize] {
        &self.extents[..usize::from(self.ndim)]
    }

    /// Returns the number of elements from one index to the next, per dimension; zeros if the access gives no view.
    #[inline]
    pub fn strides(&self) -> &[usize] {
        let strides = self.site.as_ref().map_or(&[0; MAX_DIMS], |site| &site.strides);
        &strides[..usize::from(self.ndim)]
    }

    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.extents.iter().product()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the task may write the region.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Returns the address of the first element; null if the access gives no view.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.site.map_or(std::ptr::null(), |site| site.first)
    }

    /// Returns the address of the first element for writing; null if the task may not write the region.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.site.filter(|_| self.is_writable).map_or(std::ptr::null_mut(), |site| site.first)
    }

    /// Returns whether the elements follow each other without gaps, in row-major order.
    pub fn is_contiguous(&self) -> bool {
        self.site.is_some_and(|site| is_contiguous(&self.extents, &site.strides))
    }

    /// Returns the bytes of the elements, if they are contiguous and the access gives a view.
    pub fn bytes(&self) -> Option<&[u8]> {
        let site = self.site.filter(|_| self.is_contiguous())?;
        // SAFETY: the elements are at the site for the view's lifetime, without gaps, and nothing writes them while
        // the view is borrowed (the contract of `new`). Elements are plain bytes, so all of them are initialised.
        Some(unsafe { std::slice::from_raw_parts(site.first, self.len() * self.dtype.size()) })
    }

    /// Returns the bytes of the elements for writing, if they are contiguous and the task may write them.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        let site = self.site.filter(|_| self.is_writable && self.is_contiguous())?;
        // SAFETY: as in `bytes`; the task may write the region, and the exclusive borrow excludes other views.
        Some(unsafe { std::slice::from_raw_parts_mut(site.first, self.len() * self.dtype.size()) })
    }

    fn is_of<T: DlElement, S: Shape>(&self) -> bool {
        Some(T::DATA_TYPE) == self.dtype.data_type() && S::NDIM == Some(usize::from(self.ndim))
    }

    /// Returns a typed view, if the region has this type and number of dimensions and the access gives a view.
    pub fn typed<T: DlElement, S: Shape>(&self) -> Option<S::View<'_, T>> {
        let site = self.site.filter(|_| self.is_of::<T, S>())?;
        // SAFETY: elements of this type are at the site, and nothing writes them while the view is borrowed.
        Some(unsafe { S::view(site, &S::Spans::of_block(&Block::whole(&self.extents))) })
    }

    /// Returns a typed view for writing, if the region has this type and number of dimensions and the task may write
    /// it.
    pub fn typed_mut<T: DlElement, S: Shape>(&mut self) -> Option<S::ViewMut<'_, T>> {
        let site = self.site.filter(|_| self.is_writable && self.is_of::<T, S>())?;
        // SAFETY: elements of this type are at the site, the task may write them, and the exclusive borrow excludes
        // other views.
        Some(unsafe { S::view_mut(site, &S::Spans::of_block(&Block::whole(&self.extents))) })
    }

    /// Copies the elements in row-major order. Returns nothing if the access gives no view.
    pub fn to_bytes(&self) -> Vec<u8> {
        if self.site.is_none() {
            return Vec::new();
        }
        let mut bytes = vec![0; self.len() * self.dtype.size()];
        self.copy_to(&mut bytes);
        bytes
    }

    /// Copies the elements in row-major order to `bytes`, if the access gives a view and the lengths agree. Returns
    /// whether they were copied.
    pub fn copy_to(&self, bytes: &mut [u8]) -> bool {
        let bytes_needed = self.len() * self.dtype.size();
        let Some(from) = self.site.filter(|_| bytes.len() == bytes_needed) else { return false };
        let to = Site { first: bytes.as_mut_ptr(), strides: strides_of(&self.extents) };
        // SAFETY: the view has the elements of its shape at the site, and the slice has as many bytes.
        unsafe { self.copy(from, to) };
        true
    }

    /// Copies elements in row-major order from `bytes` to the region, if the task may write it and the lengths agree.
    /// Returns whether they were copied.
    ///
    /// ```
    /// use thalweg::dynamic::{AnyData, Dtype};
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = AnyData::zeros(&rt, Dtype::U8, &[2, 3])?;
    /// let column = x.block(&[0..2, 1..2]);
    /// rt.task("fill", vec![column.inout()]).cpu(|_, mut views| {
    ///     assert!(views[0].copy_from(&[1, 2]) && !views[0].copy_from(&[1, 2, 3]));
    ///     let mut bytes = [0; 2];
    ///     assert!(views[0].copy_to(&mut bytes) && bytes == [1, 2]);
    /// }).submit()?;
    /// assert_eq!(x.all().read(&rt)?, [0, 1, 0, 0, 2, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn copy_from(&mut self, bytes: &[u8]) -> bool {
        let bytes_needed = self.len() * self.dtype.size();
        let Some(to) = self.site.filter(|_| self.is_writable && bytes.len() == bytes_needed) else { return false };
        let from = Site { first: bytes.as_ptr().cast_mut(), strides: strides_of(&self.extents) };
        // SAFETY: the slice has as many bytes as the region, of which the task may write all, and is only read.
        unsafe { self.copy(from, to) };
        true
    }

    /// Copies the elements of a box of this view's shape.
    ///
    /// # Safety
    /// Both sites have all elements, which may be read and written, and do not overlap.
    unsafe fn copy(&self, from: Site, to: Site) {
        let (extents, element_bytes) = (self.extents, self.dtype.size());
        // SAFETY: the caller upholds the same contract.
        unsafe { copy_box(&BoxCopy { from, to, extents, element_bytes }) };
    }
}

/// A view of a region in device memory, which a body for accelerators gets for an access that is declared at run time.
#[derive(Debug)]
pub struct AnyDeviceView<'a> {
    site: DeviceSite,
    dtype: Dtype,
    ndim: u8,
    is_writable: bool,
    region: PhantomData<&'a mut [u8]>,
}

impl<'a> AnyDeviceView<'a> {
    pub(super) fn new(site: DeviceSite, (dtype, ndim): (Dtype, u8), is_writable: bool) -> Self {
        Self { site, dtype, ndim, is_writable, region: PhantomData }
    }

    /// Returns the element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the number of dimensions of the data object.
    pub fn ndim(&self) -> usize {
        self.ndim.into()
    }

    /// Returns whether the task may write the region.
    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Returns the number of indices per dimension; 1 in dimensions that the data object does not have.
    pub fn extents(&self) -> [usize; MAX_DIMS] {
        self.site.extents
    }

    /// Returns the stride of each dimension, in elements.
    pub fn strides(&self) -> [usize; MAX_DIMS] {
        self.site.strides
    }

    /// Returns a typed view, if the region has elements of this type.
    pub fn typed<T: DlElement>(&self) -> Option<DeviceView<'_, T>> {
        (Some(T::DATA_TYPE) == self.dtype.data_type()).then(|| DeviceView::new(self.site))
    }

    /// Returns a typed view for writing, if the region has elements of this type and the task may write it.
    pub fn typed_mut<T: DlElement>(&mut self) -> Option<DeviceViewMut<'_, T>> {
        (self.is_writable && Some(T::DATA_TYPE) == self.dtype.data_type()).then(|| DeviceViewMut::new(self.site))
    }
}

impl Sealed for AnyDeviceView<'_> {}

impl DeviceRegion for AnyDeviceView<'_> {
    type Element = u8;

    fn place(&self) -> &DeviceSite {
        &self.site
    }
}
