//! What keeps users out of what is public by necessity alone.
//!
//! Bodies' and kernels' argument types are spelled with traits, which are public for that reason, and whose methods make
//! accesses, fill private replicas or write results: unsafe code stands on what they return and on the order in which
//! the runtime calls them. Invariants:
//! 1. A trait that unsafe code stands on has [`Sealed`] above it, so all its implementations are in this crate.
//! 2. A safe method that would reach memory without the runtime's checks takes an [`Internal`], which nobody else can
//!    name or make. That it is hidden from the documentation is no protection.

/// What only this crate implements.
pub trait Sealed {}

/// The right to call what only the runtime may call, at the right time.
#[derive(Debug, Clone, Copy)]
pub struct Internal(());

/// The one value; this crate's alone.
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

// A tuple can be given an implementation by this crate alone, whatever its elements are.
tuples! { A B C D E F G H I J K L M N O P Q R S T U V W X }
