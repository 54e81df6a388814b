//! Protection of interfaces that are public only for technical reasons.
//!
//! The argument types of bodies and kernels are spelled with traits, which therefore have to be public. Their methods
//! make accesses, fill private replicas or write results. Unsafe code relies on their return values and on the order in
//! which the runtime calls them. Invariants:
//! 1. A trait that unsafe code relies on has the supertrait [`Sealed`], so all its implementations are in this crate.
//! 2. A safe method that would reach memory without the runtime's checks takes an [`Internal`], which other crates can
//!    neither name nor make. Hiding it from the documentation alone would be no protection.

/// A marker that only this crate implements.
pub trait Sealed {}

/// The right to call functions that only the runtime may call, at the right time.
#[derive(Debug, Clone, Copy)]
pub struct Internal(());

/// The only value, private to this crate.
pub(crate) const INTERNAL: Internal = Internal(());

macro_rules! others {
    ($($t:ty)*) => {$(
        impl Sealed for $t {}
    )*};
}

others! { f64 f32 i64 u64 isize usize i32 u32 }

macro_rules! tuples {
    ($($t:ident)*) => {
        tuples! { @ () $($t)* }
    };
    (@ ($($done:ident)*)) => {
        impl<$($done),*> Sealed for ($($done,)*) {}
    };
    (@ ($($done:ident)*) $next:ident $($rest:ident)*) => {
        impl<$($done),*> Sealed for ($($done,)*) {}
        tuples! { @ ($($done)* $next) $($rest)* }
    };
}

// Only this crate can give a tuple an implementation, whatever its elements are.
tuples! { A B C D E F G H I J K L M N O P Q R S T U V W X }
