//! The form in which a task stores an access that is declared at run time.

use super::{AnyDeviceView, AnyView, Combining, Dtype};
use crate::depend::{Mode, Site};
use crate::kernel::DeviceSite;
use crate::memory::access::{Access, Declared, Home, Record, Replicated};
use crate::memory::buffer::DataCell;
use crate::memory::combine::OnDevices;
use crate::region::Block;
use crate::sealed::{Internal, Sealed};
use ndarray::Ix4;

/// One declared access of any mode and type.
#[derive(Debug)]
pub struct Stored {
    /// The region as a four-dimensional one. Its element type is not used: addresses follow from the data object.
    declared: Declared<u8, Ix4>,
    mode: Mode,
    dtype: Dtype,
    ndim: u8,
    /// The private replica of a reduction.
    combining: Option<Box<dyn Combining>>,
}

impl Stored {
    /// Returns an access of a region within the bounds of `cell`, whose elements are of this type.
    #[inline]
    pub(crate) fn new(
        cell: &DataCell,
        block: &Block,
        mode: Mode,
        (dtype, ndim): (Dtype, u8),
        combining: Option<Box<dyn Combining>>,
    ) -> Self {
        Self { declared: Declared::untyped(cell, block), mode, dtype, ndim, combining }
    }

    fn is_writable(&self) -> bool {
        matches!(self.mode, Mode::Out | Mode::Inout | Mode::Commutative | Mode::Reduction(_))
    }

    fn has_view(&self) -> bool {
        self.is_writable() || self.mode == Mode::In
    }
}

impl Sealed for Stored {}

impl Access for Stored {
    type View<'a> = AnyView<'a>;
    type DeviceView<'a> = AnyDeviceView<'a>;

    #[inline]
    unsafe fn view<'a>(&'a self, site: Option<Site>) -> AnyView<'a> {
        let site = match &self.combining {
            // SAFETY: the body runs once, so this is the only view of the replica.
            Some(combining) => Some(unsafe { combining.begin(site) }),
            None => self.has_view().then(|| self.declared.site(site)),
        };
        // SAFETY: the engine runs the body once its dependences are satisfied, so no conflicting task runs at the same
        // time (rule 2 of `memory`), and elements of the data object's type are at the site.
        unsafe { AnyView::new(site, self.declared.block().extents(), (self.dtype, self.ndim), self.is_writable()) }
    }

    fn device_view<'a>(&'a self, site: DeviceSite) -> AnyDeviceView<'a> {
        AnyDeviceView::new(site, (self.dtype, self.ndim), self.is_writable())
    }

    #[inline]
    fn visit(&self, visit: &mut dyn FnMut(Record<'_>)) {
        self.declared.record(self.mode, visit);
    }

    fn again(&self, right: Internal) -> Self {
        let combining = self.combining.as_ref().map(|combining| combining.again(right));
        Self { declared: self.declared.duplicate(), combining, ..*self }
    }
}

impl Replicated for Stored {
    fn home(&self) -> Option<Home> {
        (self.combining.is_none() && self.has_view()).then(|| Home(self.declared.site(None)))
    }

    fn combination(&self) -> Option<OnDevices> {
        self.combining.as_ref().and_then(|combining| combining.combination())
    }

    unsafe fn keep(&self) {
        if let Some(combining) = &self.combining {
            // SAFETY: the caller upholds the same contract, here and below.
            unsafe { combining.keep() }
        }
    }

    unsafe fn private(&self) -> Option<(*mut u8, usize)> {
        // SAFETY: the caller upholds the same contract.
        self.combining.as_ref().and_then(|combining| unsafe { combining.private() })
    }

    unsafe fn combine(&self, block: &Block) {
        if let Some(combining) = &self.combining {
            // SAFETY: the caller upholds the same contract.
            unsafe { combining.combine(block) }
        }
    }

    unsafe fn replica(&self) -> Option<(&[u8], Block)> {
        // SAFETY: the caller upholds the same contract.
        self.combining.as_ref().and_then(|combining| unsafe { combining.replica() })
    }

    unsafe fn absorb(&self, block: &Block, other: (&[u8], Block)) {
        if let Some(combining) = &self.combining {
            // SAFETY: the caller upholds the same contract. Tasks of one group have the same operation on the same data
            // object, so the other replica's elements are of the same type.
            unsafe { combining.absorb(block, other) }
        }
    }

    unsafe fn retire(&self) {
        if let Some(combining) = &self.combining {
            // SAFETY: the caller upholds the same contract.
            unsafe { combining.retire() }
        }
    }
}
