//! The operations of reductions.

mod built_in;

use super::Element;
use crate::depend::OpId;
use crate::kernel::{Combination, ElementType, Operation};
use crate::sealed::{INTERNAL, Internal};
use num_complex::Complex;
use parking_lot::RwLock;
use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// An associative operation with an identity.
///
/// [`Sum`], [`Min`] and [`Max`] are built in, [`Reduction::new`] turns a closure into an operation, and any type can
/// implement the trait:
///
/// ```
/// use thalweg::memory::Reducer;
/// use thalweg::prelude::*;
///
/// #[derive(Clone, Copy)]
/// struct Gcd;
///
/// impl Reducer<u64> for Gcd {
///     fn identity(&self) -> u64 {
///         0
///     }
///     fn combine(&self, accumulator: &mut u64, mut contribution: u64) {
///         while contribution > 0 {
///             (*accumulator, contribution) = (contribution, *accumulator % contribution);
///         }
///     }
///     fn in_any_order(&self) -> bool {
///         true // the same bits, whatever the order
///     }
/// }
///
/// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
/// let gcd = rt.scalar(0u64);
/// for x in [84, 126, 210] {
///     rt.task("add", (gcd.reduction(Gcd),)).cpu(move |_, (gcd,)| Gcd.combine(&mut gcd[0], x)).submit()?;
/// }
/// assert_eq!(rt.read(&gcd)?[0], 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Reducer<T>: Clone + Send + Sync + 'static {
    /// Returns the identity of the operation, which is the initial value of a private replica.
    fn identity(&self) -> T;
    /// Combines `contribution` into `accumulator`.
    fn combine(&self, accumulator: &mut T, contribution: T);
    /// Returns the operation's ID. Reductions with the same ID on the same region run concurrently; reductions with
    /// different IDs run one after the other.
    ///
    /// By default, all values of a type are the same operation. A type whose values are different operations, such as
    /// sums modulo a number, should store an [`OpId::unique`] in each value; clones of a value share its ID.
    fn id(&self) -> OpId {
        OpId::of::<Self>()
    }
    /// Returns whether contributions may be combined in any order, and with each other before they are combined with
    /// the region.
    ///
    /// The default is `false`: contributions are combined one by one in the order of submission, and a task that ends
    /// early keeps its replica until its turn comes. Return `true` if the operation gives the same bits in any order,
    /// as [`Min`], [`Max`] and [`Sum`] of integers do, or if different bits do not matter, as with [`AnyOrder`].
    fn in_any_order(&self) -> bool {
        false
    }
    /// Returns the form in which devices can combine contributions, if there is one.
    #[doc(hidden)]
    fn on_devices(&self, _: Internal) -> Option<OnDevices> {
        None
    }
}

/// An operation that devices can combine, wrapped so that the public trait can mention it.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct OnDevices(pub(crate) Combination);

impl OnDevices {
    /// Returns the form of an operation on elements of type `T`, if devices have such elements.
    fn of<T: Element>(operation: Operation, identity: T) -> Option<Self> {
        let element = [
            (TypeId::of::<f64>(), ElementType::F64),
            (TypeId::of::<f32>(), ElementType::F32),
            (TypeId::of::<i32>(), ElementType::I32),
            (TypeId::of::<u32>(), ElementType::U32),
            (TypeId::of::<i64>(), ElementType::I64),
            (TypeId::of::<u64>(), ElementType::U64),
        ];
        let (_, element) = element.into_iter().find(|(id, _)| *id == TypeId::of::<T>())?;
        let mut bytes = [0; 8];
        bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&identity));
        Some(Self(Combination { operation, element, identity: bytes }))
    }
}

/// Returns the ID of an operation. An operation that combines in any order does not share a group with the same
/// operation in submission order, and neither does one that devices can combine with one that they cannot.
pub(crate) fn operation<T>(reducer: &impl Reducer<T>) -> OpId {
    let id = reducer.id();
    let id = if reducer.in_any_order() { id.in_any_order() } else { id };
    if reducer.on_devices(INTERNAL).is_some() { id.on_devices() } else { id }
}

/// Addition of integers, floating-point and [complex numbers](super::Complex); the identity is zero.
///
/// Integers are added in any order. Floating-point sums are rounded, so floating-point numbers are added in submission
/// order, unless the operation is wrapped in [`AnyOrder`]. Complex numbers follow the rule for the type of their parts.
///
/// Integer sums wrap around at the bounds of their type, as [`i32::wrapping_add`] does. They are therefore the same in
/// any order, and a sum that fits is correct even if a partial sum overflows.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
/// let sum = rt.scalar(0i8);
/// for x in [100, 100, -100] {
///     rt.task("add", (sum.reduction(Sum),)).cpu(move |_, (sum,)| sum[0] += x).submit()?;
/// }
/// assert_eq!(rt.read(&sum)?[0], 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum;

/// The minimum of integers or floating-point numbers; the identity is the largest value of the type. -0.0 is less than
/// 0.0. If any contribution is NaN, the result is NaN, in every order.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let found = rt.scalar(7);
/// for x in [9, 2, 5] {
///     rt.task("look", (found.reduction(Min),)).cpu(move |_, (found,)| found[0] = x).submit()?;
/// }
/// assert_eq!(rt.read(&found)?[0], 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Min;

/// The maximum of integers or floating-point numbers; the identity is the smallest value of the type. In other respects
/// it is like [`Min`].
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let found = rt.scalar(7);
/// for x in [9, 2, 5] {
///     rt.task("look", (found.reduction(Max),)).cpu(move |_, (found,)| found[0] = x).submit()?;
/// }
/// assert_eq!(rt.read(&found)?[0], 9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Max;

const SUM: OpId = OpId(0);
const MIN: OpId = OpId(1);
const MAX: OpId = OpId(2);
const FIRST_OWN: u32 = 16;
static NEXT: AtomicU32 = AtomicU32::new(FIRST_OWN);
/// The IDs of user-defined types.
static BY_TYPE: RwLock<BTreeMap<TypeId, OpId>> = RwLock::new(BTreeMap::new());

impl OpId {
    /// Returns the ID of a type whose values are all the same operation.
    pub fn of<R: ?Sized + 'static>() -> Self {
        let operation = TypeId::of::<R>();
        let known = BY_TYPE.read().get(&operation).copied();
        known.unwrap_or_else(|| *BY_TYPE.write().entry(operation).or_insert_with(Self::unique))
    }

    /// Returns an ID that no other operation in the process has.
    ///
    /// # Panics
    /// Panics if no IDs are left, which happens after 2^29 calls.
    #[track_caller]
    pub fn unique() -> Self {
        let next = |id: u32| (id < Self::LIMIT).then_some(id + 1);
        match NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(id) => Self(id),
            Err(_) => panic!("cannot name another operation of reductions: all ids are in use; try cloning one"),
        }
    }
}

/// Complex numbers are added part by part. They are not ordered, so [`Min`] and [`Max`] do not support them.
impl<T> Reducer<Complex<T>> for Sum
where
    Sum: Reducer<T>,
{
    fn identity(&self) -> Complex<T> {
        Complex { re: self.identity(), im: self.identity() }
    }

    fn combine(&self, accumulator: &mut Complex<T>, contribution: Complex<T>) {
        self.combine(&mut accumulator.re, contribution.re);
        self.combine(&mut accumulator.im, contribution.im);
    }

    fn id(&self) -> OpId {
        SUM
    }

    fn in_any_order(&self) -> bool {
        Reducer::<T>::in_any_order(self)
    }
}

/// An operation whose contributions may be combined in any order: `AnyOrder(Sum)` of floating-point numbers.
///
/// No task waits for its turn, so there are never many more replicas than threads. The drawback is that the rounding of
/// a sum depends on which task ends first. Without `AnyOrder`, sums are the same in every run, but a task that finishes
/// early keeps its replica, which has the size of the region, until all earlier contributions have been combined.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::memory::AnyOrder;
/// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
/// let x = rt.scalar(0.0);
/// for i in 1..=4 {
///     rt.task("add", (x.reduction(AnyOrder(Sum)),)).cpu(move |_, (x,)| x[0] += i as f64).submit()?;
/// }
/// assert_eq!(rt.read(&x)?[0], 10.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnyOrder<R>(pub R);

impl<T, R: Reducer<T>> Reducer<T> for AnyOrder<R> {
    fn identity(&self) -> T {
        self.0.identity()
    }

    fn combine(&self, accumulator: &mut T, contribution: T) {
        self.0.combine(accumulator, contribution);
    }

    fn id(&self) -> OpId {
        self.0.id()
    }

    fn in_any_order(&self) -> bool {
        true
    }

    fn on_devices(&self, right: Internal) -> Option<OnDevices> {
        self.0.on_devices(right)
    }
}

/// Arrays are reduced element by element.
impl<T: Element, const N: usize, R: Reducer<T>> Reducer<[T; N]> for Elementwise<R> {
    fn identity(&self) -> [T; N] {
        [self.0.identity(); N]
    }

    fn combine(&self, accumulator: &mut [T; N], contribution: [T; N]) {
        for (a, c) in accumulator.iter_mut().zip(contribution) {
            self.0.combine(a, c);
        }
    }

    fn id(&self) -> OpId {
        self.0.id()
    }

    fn in_any_order(&self) -> bool {
        self.0.in_any_order()
    }
}

/// Applies an operation to every element of an array: `Elementwise(Sum)` on `[f64; 5]`.
///
/// ```
/// use thalweg::memory::Elementwise;
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let sums = rt.scalar([0.0; 3]);
/// for x in 1..=4 {
///     rt.task("powers", (sums.reduction(Elementwise(Sum)),))
///         .cpu(move |_, (sums,)| sums[0] = [1, 2, 3].map(|power| f64::from(x).powi(power)))
///         .submit()?;
/// }
/// assert_eq!(rt.read(&sums)?[0], [10.0, 30.0, 100.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elementwise<R>(pub R);

type Closure<T> = dyn Fn(&mut T, T) + Send + Sync;

/// A custom operation; clones are the same operation.
///
/// ```
/// use thalweg::prelude::*;
/// let product = Reduction::new("product", 1.0, |a: &mut f64, b| *a *= b);
/// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
/// let x = rt.scalar(1.0);
/// for i in 1..=5 {
///     rt.task("factor", (x.reduction(product.clone()),)).cpu(move |_, (x,)| x[0] = i as f64).submit()?;
/// }
/// assert_eq!(rt.read(&x)?[0], 120.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reduction<T> {
    name: &'static str,
    id: OpId,
    identity: T,
    operation: Arc<Closure<T>>,
}

impl<T: Element> Reduction<T> {
    /// Makes an associative operation from its identity and a closure that combines a contribution into an
    /// accumulator.
    ///
    /// Contributions are combined in submission order, so the operation need not be commutative. If the operation is
    /// commutative and the order does not matter, wrapping it in [`AnyOrder`] saves waiting and memory.
    pub fn new(name: &'static str, identity: T, operation: impl Fn(&mut T, T) + Send + Sync + 'static) -> Self {
        let id = OpId::unique();
        Self { name, id, identity, operation: Arc::new(operation) }
    }
}

impl<T: Clone> Clone for Reduction<T> {
    fn clone(&self) -> Self {
        Self { identity: self.identity.clone(), operation: self.operation.clone(), ..*self }
    }
}

impl<T> fmt::Debug for Reduction<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reduction({})", self.name)
    }
}

impl<T: Element> Reducer<T> for Reduction<T> {
    fn identity(&self) -> T {
        self.identity
    }

    fn combine(&self, accumulator: &mut T, contribution: T) {
        (self.operation)(accumulator, contribution);
    }

    fn id(&self) -> OpId {
        self.id
    }
}

#[cfg(test)]
mod tests;
