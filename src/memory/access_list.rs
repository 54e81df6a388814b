//! The accesses of one task, which are single accesses, tuples and lists, nested in any way.
//!
//! The layers below number a task's regions from 0 and know no other structure. Each element of a tuple or a list
//! covers as many consecutive regions as it declares, and views are made in the order in which [`AccessList::visit`]
//! names the regions.

use super::access::{Access, Record, Replicated};
use crate::depend::Site;
use crate::kernel::DeviceSite;
use crate::sealed::{Internal, Sealed};

/// The accesses of one task: a single access, a tuple of up to twelve accesses, a [`List`], or any nesting of these.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let (x, y, z) = (rt.data(vec![1; 4]), rt.data(vec![2; 4]), rt.data(vec![0; 4]));
/// // Nested tuples, with matching views.
/// rt.task("add", ((x.input(), y.input()), z.output()))
///     .cpu(|_, ((x, y), z)| for i in 0..4 { z[i] = x[i] + y[i] })
///     .submit()?;
/// assert_eq!(rt.take(z)?, [3; 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait AccessList: Sealed + Send + 'static {
    /// The views that the body receives: the view of a single access, or a tuple or vector of the views of its parts.
    type Views<'a>;
    /// The views that a body for accelerators receives.
    type DeviceViews<'a>;
    /// The number of regions; `None` if it differs between values of this type.
    #[doc(hidden)]
    const COUNT: Option<usize>;

    /// Returns the number of regions.
    #[doc(hidden)]
    #[inline]
    fn count(&self) -> usize {
        Self::COUNT.expect("a list without a fixed number of regions counts them")
    }

    /// # Safety
    /// As for [`Access::view`], for each access; and `sites`, if given, has one site per access.
    #[doc(hidden)]
    unsafe fn views<'a>(&'a self, sites: &mut Sites<'_>) -> Self::Views<'a>;

    #[doc(hidden)]
    fn device_views<'a>(&'a self, sites: &mut DeviceSites<'_>) -> Self::DeviceViews<'a>;

    /// Visits each access to a region. Like `at` and `keep`, the default suits lists without regions.
    #[doc(hidden)]
    #[inline]
    fn visit(&self, _visit: &mut dyn FnMut(Record<'_>)) {
        const { assert!(matches!(Self::COUNT, Some(0))) }
    }

    /// Returns the access with this index.
    #[doc(hidden)]
    fn at(&self, index: usize) -> &dyn Replicated {
        unreachable!("there is no region {index} in a list without regions")
    }

    /// # Safety
    /// As for [`Replicated::keep`], for each access.
    #[doc(hidden)]
    #[inline]
    unsafe fn keep(&self) {
        const { assert!(matches!(Self::COUNT, Some(0))) }
    }

    /// Returns the same accesses for another task.
    #[doc(hidden)]
    #[must_use]
    fn again(&self, right: Internal, span: Span) -> Self;
}

/// How long a task keeps the values of a recording's parameters.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// The task runs for one replay, and keeps the current values.
    Once,
    /// The task stays for all future replays, and reads the values given to each replay.
    Always,
    /// The task is an iteration of a loop, and keeps the values that the loop has had since its submission.
    Loop,
}

/// The sites of those regions of a task that have no view yet; `None` for a region in the host copy, or for all.
#[doc(hidden)]
#[derive(Debug)]
pub struct Sites<'s>(Option<&'s [Option<Site>]>);

/// The device sites of those regions of a task that have no view yet.
#[doc(hidden)]
#[derive(Debug)]
pub struct DeviceSites<'s>(&'s [DeviceSite]);

impl<'s> Sites<'s> {
    #[inline]
    pub(super) fn new(sites: Option<&'s [Option<Site>]>) -> Self {
        Self(sites)
    }

    #[inline]
    fn next(&mut self) -> Option<Site> {
        self.0.as_mut().and_then(|sites| *sites.split_off_first().expect("each region is in the list"))
    }
}

impl<'s> DeviceSites<'s> {
    pub(super) fn new(sites: &'s [DeviceSite]) -> Self {
        Self(sites)
    }

    fn next(&mut self) -> DeviceSite {
        *self.0.split_off_first().expect("each region has a site")
    }
}

impl<A: Access> AccessList for A {
    type Views<'a> = A::View<'a>;
    type DeviceViews<'a> = A::DeviceView<'a>;

    const COUNT: Option<usize> = Some(1);

    #[inline]
    unsafe fn views<'a>(&'a self, sites: &mut Sites<'_>) -> Self::Views<'a> {
        // SAFETY: the engine runs a task's body once, with the sites of its own accesses in order, so the next site is
        // the site of this access.
        unsafe { self.view(sites.next()) }
    }

    fn device_views<'a>(&'a self, sites: &mut DeviceSites<'_>) -> Self::DeviceViews<'a> {
        self.device_view(sites.next())
    }

    #[inline]
    fn visit(&self, visit: &mut dyn FnMut(Record<'_>)) {
        Access::visit(self, visit);
    }

    fn at(&self, _: usize) -> &dyn Replicated {
        self
    }

    #[inline]
    unsafe fn keep(&self) {
        // SAFETY: `Body::keep` is called only after the task's body or its kernels have ended, so no view exists any
        // more.
        unsafe { Replicated::keep(self) }
    }

    fn again(&self, right: Internal, _: Span) -> Self {
        Access::again(self, right)
    }
}

/// Returns the total number of regions of two parts, if both numbers are known.
pub(crate) const fn both(a: Option<usize>, b: Option<usize>) -> Option<usize> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        _ => None,
    }
}

macro_rules! tuples {
    ($(($($a:ident $i:tt),*))*) => {$(
        #[allow(clippy::unused_unit, unused_variables, unused_mut, unused_unsafe)] // for the empty tuple
        impl<$($a: AccessList),*> AccessList for ($($a,)*) {
            type Views<'a> = ($($a::Views<'a>,)*);
            type DeviceViews<'a> = ($($a::DeviceViews<'a>,)*);

            const COUNT: Option<usize> = {
                let mut count = Some(0);
                $(count = both(count, $a::COUNT);)*
                count
            };

            #[inline]
            fn count(&self) -> usize {
                0 $(+ self.$i.count())*
            }

            #[inline]
            unsafe fn views<'a>(&'a self, sites: &mut Sites<'_>) -> Self::Views<'a> {
                // SAFETY: sites are taken in the order of the accesses, so each access gets its own site.
                unsafe { ($(self.$i.views(sites),)*) }
            }

            fn device_views<'a>(&'a self, sites: &mut DeviceSites<'_>) -> Self::DeviceViews<'a> {
                ($(self.$i.device_views(sites),)*)
            }

            #[inline]
            fn visit(&self, visit: &mut dyn FnMut(Record<'_>)) {
                $(self.$i.visit(visit);)*
            }

            fn at(&self, index: usize) -> &dyn Replicated {
                let mut before = 0;
                $(
                    let count = self.$i.count();
                    if index - before < count {
                        return self.$i.at(index - before);
                    }
                    before += count;
                )*
                unreachable!("there is no region {index} of {before}")
            }

            #[inline]
            unsafe fn keep(&self) {
                // SAFETY: the task's body has ended, and so has the use of each of its accesses.
                $(unsafe { self.$i.keep() };)*
            }

            fn again(&self, right: Internal, span: Span) -> Self {
                ($(self.$i.again(right, span),)*)
            }
        }
    )*};
}

tuples! { () }
for_tuples! { tuples }

/// A list of accesses of one type, whose length is known only at run time.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let (parts, sum) = ((1..=20).map(|n| rt.scalar(n)).collect::<Vec<_>>(), rt.scalar(0));
/// let inputs: Vec<_> = parts.iter().map(|part| part.input()).collect();
/// rt.task("sum", (inputs, sum.output())).cpu(|_, (parts, sum)| sum[0] = parts.iter().map(|x| x[0]).sum()).submit()?;
/// assert_eq!(rt.read(&sum)?[0], 210);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct List<A>(pub(crate) Box<[A]>);

impl<A> Sealed for List<A> {}

impl<A: AccessList> AccessList for List<A> {
    type Views<'a> = Vec<A::Views<'a>>;
    type DeviceViews<'a> = Vec<A::DeviceViews<'a>>;

    const COUNT: Option<usize> = None;

    fn count(&self) -> usize {
        match A::COUNT {
            Some(each) => each * self.0.len(),
            None => self.0.iter().map(A::count).sum(),
        }
    }

    unsafe fn views<'a>(&'a self, sites: &mut Sites<'_>) -> Self::Views<'a> {
        // SAFETY: sites are taken in the order of the accesses, so each access gets its own site.
        self.0.iter().map(|access| unsafe { access.views(sites) }).collect()
    }

    fn device_views<'a>(&'a self, sites: &mut DeviceSites<'_>) -> Self::DeviceViews<'a> {
        self.0.iter().map(|access| access.device_views(sites)).collect()
    }

    fn visit(&self, visit: &mut dyn FnMut(Record<'_>)) {
        self.0.iter().for_each(|access| access.visit(visit));
    }

    fn at(&self, mut index: usize) -> &dyn Replicated {
        if let Some(each) = A::COUNT {
            return self.0[index / each].at(index % each);
        }
        for access in &self.0 {
            let count = access.count();
            if index < count {
                return access.at(index);
            }
            index -= count;
        }
        unreachable!("there is no region {index} after the last")
    }

    unsafe fn keep(&self) {
        // SAFETY: the task's body has ended, and so has the use of each of its accesses.
        self.0.iter().for_each(|access| unsafe { access.keep() });
    }

    fn again(&self, right: Internal, span: Span) -> Self {
        Self(self.0.iter().map(|access| access.again(right, span)).collect())
    }
}
